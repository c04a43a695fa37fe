// The same job as a Node team would write it: kafkajs runs the partitions of a
// topic side by side, and each record is one call. Like the roles of the bench,
// it answers a line on stdin with what it has used and done, on stdout.
import http from "node:http";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Kafka, logLevel } from "kafkajs";

const [broker, topic, group, url] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

function call(body) {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body), Authorization: "Bearer bench" };
    const request = http.request(url, { method: "POST", agent, headers }, (response) => {
      response.resume();
      response.on("end", () => (response.statusCode === 200 ? resolve() : reject(new Error(`${response.statusCode}`))));
    });
    request.on("error", reject);
    request.end(body);
  });
}

const memory = (field) => Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? 0) * 1024;

const kafka = new Kafka({ clientId: "bench", brokers: [broker], logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: group });
consumer.on(consumer.events.CRASH, () => process.exit(1));
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
await consumer.run({
  partitionsConsumedConcurrently: 12,
  eachMessage: async ({ message }) => {
    const { op, key, ...rest } = JSON.parse(message.value.toString());
    await call(JSON.stringify(rest));
  },
});

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
say({ address: "" });
const questions = createInterface({ input: process.stdin });
let settings = true; // the first line
questions.on("line", () => {
  if (settings) {
    settings = false;
    return;
  }
  const used = process.cpuUsage();
  say({
    cpu: (used.user + used.system) / 1e6,
    rss: memory("VmHWM"),
    resident: memory("VmRSS"),
    files: readdirSync("/proc/self/fd").length,
  });
});
questions.on("close", () => process.exit(0));
