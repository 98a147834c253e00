// A model that answers every request after the same time; a worker thread, so that its work is not counted as ours.
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

const chunk = { id: "1", object: "chat.completion.chunk", created: 0, model: "fixed" };
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const answer = [
  { ...chunk, choices: [{ index: 0, delta: { role: "assistant", content: "done" }, finish_reason: "stop" }] },
  { ...chunk, choices: [], usage },
];
const events = [...answer.map((data) => JSON.stringify(data)), "[DONE]"].map((data) => `data: ${data}\n\n`);

const server = createServer((request, response) => {
  request.resume();
  setTimeout(() => {
    response.setHeader("content-type", "text/event-stream");
    response.end(events.join(""));
  }, workerData.latencyMs);
});
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
