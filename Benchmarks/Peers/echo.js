// An echo server on Node.js, to compare with: `node echo.js [--port N]`.
'use strict'

const { createServer } = require('node:net')

const [option = '--port', value = '7007', ...rest] = process.argv.slice(2)
if (option !== '--port' || !/^\d+$/.test(value) || Number(value) > 65535 || rest.length > 0) {
  console.error('usage: echo.js [--port N]')
  process.exit(64)
}

const server = createServer({ noDelay: true }, (socket) => {
  // By hand, because pipe() does more for each chunk. It too stops reading while an answer is queued.
  socket.on('data', (bytes) => {
    if (!socket.write(bytes)) socket.pause()
  })
  socket.on('drain', () => socket.resume())
  socket.on('error', () => socket.destroy()) // A client that vanishes must not end the server.
})
server.on('error', (error) => {
  console.error(`echo.js: ${error.message}`)
  process.exit(1)
})
server.listen({ host: '127.0.0.1', port: Number(value), backlog: 4096 }, () => {
  console.log(`listening on 127.0.0.1:${server.address().port}`)
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(0))
