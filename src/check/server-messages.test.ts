import type { JsonObject } from "../base/json.ts";
import { textResult } from "../../test/support/trial-events.ts";
import { type CheckedServer, testRules, tool } from "../../test/support/rules.ts";

const request = (method: string, params: JsonObject = {}, id = 1): JsonObject => {
  return { jsonrpc: "2.0", id, method, params };
};
const notification = (method: string, params: JsonObject = {}): JsonObject => {
  return { jsonrpc: "2.0", method, params };
};
const sends = (...messages: readonly JsonObject[]): CheckedServer => ({ sends: messages });
const declaring = (capabilities: JsonObject, ...messages: readonly JsonObject[]): CheckedServer => ({
  hello: { capabilities },
  sends: messages,
});
/** Progress of a call that has the token 9, or of one without. */
const progress = (...params: readonly JsonObject[]): CheckedServer => ({
  tools: [tool()],
  calls: [
    {
      meta: { progressToken: 9 },
      sends: params.map((each) => notification("notifications/progress", each)),
      result: textResult("ok"),
    },
  ],
});
const changed = notification("notifications/tools/list_changed");
const logged = notification("notifications/message", { level: "info", data: "ready" });

testRules({
  "protocol/unsupported-request": {
    bad: {
      sampling: sends(request("sampling/createMessage")),
      elicitation: sends(request("elicitation/create")),
      roots: sends(request("roots/list")),
    },
    good: { "a ping": sends(request("ping")), "an unknown request": sends(request("roots/all")) },
  },
  "protocol/unknown-message": {
    bad: {
      "an unknown request": sends(request("roots/all")),
      "an unknown notification": sends(notification("notifications/tool_changed")),
      "a request that is sent as a notification": sends(notification("roots/list")),
    },
    good: {
      "known messages": sends(request("roots/list"), changed, logged),
      "messages of a server with experimental capabilities": declaring(
        { experimental: { "notes/watch": {} } },
        notification("notifications/notes/watch"),
      ),
    },
  },
  "protocol/undeclared-notification": {
    bad: {
      "a list that does not change": declaring({ tools: {} }, changed),
      "a log message": declaring({ tools: {} }, logged),
      "an update that nobody can subscribe to": declaring(
        { resources: { listChanged: true } },
        notification("notifications/resources/updated", { uri: "notes://a" }),
      ),
    },
    good: {
      "what is declared": declaring({ tools: { listChanged: true }, logging: {} }, changed, logged),
    },
  },
  "protocol/progress": {
    bad: {
      "an unknown token": progress({ progressToken: 8, progress: 1 }),
      "the token as a text": progress({ progressToken: "9", progress: 1 }),
      "no token": progress({ progress: 1 }),
      "falling values": progress({ progressToken: 9, progress: 5 }, { progressToken: 9, progress: 4 }),
      "no value": progress({ progressToken: 9 }),
    },
    good: {
      "rising values": progress({ progressToken: 9, progress: 1 }, { progressToken: 9, progress: 2 }),
    },
  },
  "protocol/cancelled": {
    bad: {
      "a request that was never sent": sends(notification("notifications/cancelled", { requestId: 77 })),
      "no id": sends(notification("notifications/cancelled")),
    },
    good: {
      "a request of the server": sends(
        request("roots/list", {}, 5),
        notification("notifications/cancelled", { requestId: 5 }),
      ),
    },
  },
  "protocol/early-message": {
    bad: {
      "a notification": { early: [changed] },
      "a request": { early: [request("roots/list")] },
    },
    good: {
      "a ping and a log message": { early: [request("ping"), logged] },
      "a notification after the handshake": sends(changed),
    },
  },
  "protocol/invalid-cursor": {
    bad: { null: { tools: [tool()], page: { nextCursor: null } } },
    good: { "no cursor": { tools: [tool()] } },
  },
});
