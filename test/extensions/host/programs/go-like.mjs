// As strict as the Go SDK: other versions, `args: null` and lines over 64 KiB are refused; outputs are texts.
import process from "node:process";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const refuse = (id, code, message) => send({ id, error: { code, message } });
let next = 1;

function answer(line) {
  if (line.length > 64 * 1024) {
    process.stderr.write("bufio.Scanner: token too long\n");
    process.exit(1);
  }
  const { jsonrpc, id, method, params } = JSON.parse(line);
  if (jsonrpc !== "2.0" || id !== next) return refuse(id, -32600, `invalid request ${id}`);
  next += 1;
  switch (method) {
    case "initialize":
      if (params.protocolVersion !== "0.0.1") return refuse(id, -32602, "unsupported protocol version");
      return send({
        id,
        result: {
          name: "go",
          version: "v0.1.0",
          protocolVersion: "0.0.1",
          operations: { create: { description: "create", params: { type: "object" } } },
        },
      });
    case "execute": {
      const { operation, args, context } = params;
      if (args === null || typeof args !== "object") return refuse(id, -32602, "args must be an object");
      if (!/^(\d+(\.\d+)?(h|m|s|ms|us|ns))+$/.test(context.timeout))
        return refuse(id, -32602, "bad duration");
      if (Object.values(context.env ?? {}).some((value) => typeof value !== "string"))
        return refuse(id, -32602, "bad env");
      if (operation !== "create")
        return send({ id, result: { success: false, error: `unknown operation: ${operation}` } });
      return send({ id, result: { success: true, outputs: { name: "pod", args: JSON.stringify(args) } } });
    }
    case "shutdown":
      send({ id, result: {} });
      return process.exit(0);
    default:
      return refuse(id, -32601, "method not found");
  }
}

let rest = "";
process.stdin.on("data", (chunk) => {
  rest += chunk;
  const lines = rest.split("\n");
  rest = lines.pop();
  for (const line of lines) answer(line);
});
