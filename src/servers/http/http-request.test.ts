import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { sendRequest } from "./http-request.ts";

/** A server that closes each connection when a second request comes over it. */
async function forgetful(): Promise<{ readonly url: URL; readonly requests: string[] }> {
  const requests: string[] = [];
  const seen = new WeakSet<Socket>();
  const server = createServer((request, response) => {
    requests.push(request.method ?? "");
    if (seen.has(request.socket)) return void request.socket.destroy();
    seen.add(request.socket);
    response.end("ok");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), requests };
}

async function send(url: URL, isRepeatable: boolean): Promise<string> {
  let text = "";
  const { body } = await sendRequest(url, { method: "POST", headers: {}, body: "{}", isRepeatable });
  for await (const chunk of body) text += Buffer.from(chunk).toString();
  return text;
}

it("sends a request that may come twice again when its kept connection was closed, and no other", async () => {
  const { url, requests } = await forgetful();
  expect([await send(url, true), await send(url, true)]).toEqual(["ok", "ok"]);
  expect(requests).toHaveLength(3);
  await expect(send(url, false)).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(requests).toHaveLength(4);
});
