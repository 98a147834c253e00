import { type CheckedRead, type CheckedServer, testRules } from "../../test/support/rules.ts";

const error = { code: -32602, message: "no such city" };
const note = { kind: "resource", name: "notes://a" } as const;
const summary = { kind: "prompt", name: "summary" } as const;
const reads = (...each: readonly CheckedRead[]): CheckedServer => ({ reads: each });
const message = { role: "user", content: { type: "text", text: "Sum up." } };

testRules({
  "read/failed": {
    bad: {
      "a resource that is refused": reads({ ...note, error }),
      "a prompt without required arguments that is refused": reads({ ...summary, error }),
    },
    good: {
      "a refusal of arguments that were made up": reads({ ...summary, args: { city: "text" }, error }),
      "a resource": reads({ ...note, result: { contents: [{ uri: note.name, text: "" }] } }),
    },
  },
  "read/invalid-result": {
    bad: {
      "contents that are no list": reads({ ...note, result: { contents: "text" } }),
      "a blob that is not Base64": reads({ ...note, result: { contents: [{ uri: note.name, blob: "%" }] } }),
      "a message without a role": reads({ ...summary, result: { messages: [{ content: message.content }] } }),
    },
    good: {
      "a prompt": reads({ ...summary, result: { messages: [message] } }),
      "a refusal": reads({ ...summary, error }),
    },
  },
});
