import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { anthropicWire } from "./anthropic.ts";
import { chatWire } from "./chat.ts";
import { geminiWire } from "./gemini.ts";
import { responsesWire } from "./responses.ts";
import type { Body, ModelReply, ModelRequest, WireAnswer } from "./wire.ts";

const wires = [responsesWire, chatWire, geminiWire, anthropicWire];

export interface FakeModel extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`, without a path. */
  readonly url: string;
  /** What was asked so far, in order. */
  readonly requests: readonly ModelRequest[];
}

/**
 * A model on loopback that streams as the providers do: it calls the first tool whose name ends in `tool`, once, and says
 * `words` then. Without such a tool it says `words` at once. With `refuses` it answers everything with that HTTP status.
 */
export async function startFakeModel(options: {
  readonly tool: string;
  readonly args: object;
  readonly words: string;
  readonly refuses?: number;
}): Promise<FakeModel> {
  const requests: ModelRequest[] = [];
  const reply = ({ tools, results }: ModelRequest): ModelReply => {
    // Some agents have no dashes in names of tools.
    const plain = (name: string): string => name.replaceAll("-", "_");
    const tool = tools.find(({ name }) => plain(name).endsWith(plain(options.tool)));
    return tool === undefined || results > 0
      ? { kind: "text", text: options.words }
      : { kind: "call", tool, args: options.args };
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname } = new URL(request.url ?? "/", "http://localhost");
      const wire = wires.find((each) => each.handles(pathname));
      if (request.method !== "POST" || wire === undefined) {
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ object: "list", data: [{ id: "fake", object: "model" }], models: [] }));
        return;
      }
      const body = (await json(request)) as Body;
      const asked = wire.read(body);
      requests.push(asked);
      if (options.refuses !== undefined) {
        response.writeHead(options.refuses, { "content-type": "application/json" });
        const error = { type: "authentication_error", code: "invalid_api_key", message: "bad key" };
        response.end(JSON.stringify({ type: "error", error }));
        return;
      }
      const streams = body["stream"] === true || pathname.includes("stream");
      const answer = wire.write(reply(asked), asked, streams);
      const isStream = "events" in answer;
      response.writeHead(200, { "content-type": isStream ? "text/event-stream" : "application/json" });
      response.end(bodyOf(answer));
    })().catch((error: unknown) => {
      response.writeHead(500).end(String(error));
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function bodyOf(answer: WireAnswer): string {
  if ("json" in answer) return JSON.stringify(answer.json);
  const events = answer.events.map(
    ({ event, data }) => `${event === undefined ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`,
  );
  return events.join("") + (answer.done === true ? "data: [DONE]\n\n" : "");
}
