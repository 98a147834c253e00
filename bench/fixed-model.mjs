// A model that answers every request after the same time; a worker thread, so that its work is not counted as ours.
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

const answer = JSON.stringify({
  id: "1",
  object: "chat.completion",
  created: 0,
  model: "fixed",
  choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

const server = createServer((request, response) => {
  request.resume();
  setTimeout(() => {
    response.setHeader("content-type", "application/json");
    response.end(answer);
  }, workerData.latencyMs);
});
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
