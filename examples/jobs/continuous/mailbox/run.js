// Takes the jobs of queue "mailbox" over HTTP, as any Node service would, and "sends" the mails.
const http = require('http');
const server = new URL(process.env.MAINSPRING_SERVER || 'http://127.0.0.1:8080');

function call(path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(
        {host: server.hostname, port: server.port, path, method: 'POST',
         headers: {'Content-Type': 'application/json'}},
        (answer) => {
          let text = '';
          answer.on('data', (part) => text += part);
          answer.on('end', () => resolve(JSON.parse(text)));
        });
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });
}

let ending = false;
process.on('SIGTERM', () => {
  console.log('ending');
  process.exit(0);
});

(async () => {
  const worker = `mailbox-${process.pid}`;
  while (!ending) {
    const {jobs} = await call('/v1/claim', {worker, queues: ['mailbox'], max: 10, wait: '20s'});
    const results = [];
    for (const job of jobs) {
      console.log(`mail to ${job.args.to} from ${process.env.MAILBOX_SENDER || 'the server'}`);
      results.push({id: job.id, token: job.token, outcome: 'complete', result: {sent: job.args.to}});
    }
    if (results.length > 0) await call('/v1/finish', {worker, results});
  }
})().catch((problem) => {
  console.error(problem.message);
  process.exit(1);
});
