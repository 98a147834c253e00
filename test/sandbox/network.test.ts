import { describe, expect, it } from "vitest";
import { openNetwork } from "../../src/sandbox/network.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import { Bench, freshPlace, path, whyNot } from "./support.ts";

const sandbox = sandboxOf("process");
const node = process.execPath;
const { signal } = new AbortController();

/** A program that answers at port 80 with the address that was asked. */
const answering = {
  command: node,
  args: [
    "-e",
    `require("http").createServer((request, response) => response.end(request.socket.localAddress))
      .listen(80, "0.0.0.0", () => console.log(process.pid)); process.stdin.resume().on("end", () => process.exit())`,
  ],
};

async function whyNoNetwork(): Promise<string | undefined> {
  if (process.platform !== "linux") return "only tried on Linux";
  const reason = await whyNot(sandbox);
  if (reason !== undefined) return reason;
  try {
    await using _ = await openNetwork(answering, signal);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

const reason = await whyNoNetwork();

describe.skipIf(reason !== undefined)(
  `a network of its own${reason === undefined ? "" : ` (SKIPPED: ${reason})`}`,
  () => {
    it("has an answer at each address for the sandboxes that join it, and gives them no right to change it", async () => {
      await using network = await openNetwork(answering, signal);
      const bench = new Bench(sandbox, await freshPlace());
      const script = `
        const { execFileSync } = require("child_process");
        const { readFileSync } = require("fs");
        const ask = (address) => fetch("http://" + address + "/").then((response) => response.text(), (error) => error.cause.code);
        const fails = (command, ...args) => { try { execFileSync(command, args, { stdio: "ignore" }); return false; } catch { return true; } };
        (async () => console.log(JSON.stringify({
          answers: [await ask("93.184.215.14"), await ask("169.254.169.254"), await ask("127.0.0.1:81")],
          rights: /CapEff:\\s*(\\w+)/.exec(readFileSync("/proc/self/status", "utf8"))[1],
          refused: [fails("ip", "link", "set", "lo", "down"), fails("unshare", "-Ur", "true")],
        })))()`;
      const given = { env: { PATH: `/usr/sbin:/sbin:${path}` }, spec: { namespaces: network.namespaces } };
      expect(await bench.ask([node, "-e", script], given)).toEqual({
        answers: ["93.184.215.14", "169.254.169.254", "ECONNREFUSED"],
        rights: "0000000000000000",
        refused: [true, true],
      });
    });

    it("is not that of other sandboxes, nor that of this machine", async () => {
      await using _ = await openNetwork(answering, signal);
      const bench = new Bench(sandbox, await freshPlace());
      const script = `fetch("http://93.184.215.14/").then(() => console.log('"an answer"'), (error) => console.log(JSON.stringify(error.cause.code)))`;
      expect(await bench.ask([node, "-e", script])).toBe("ENETUNREACH");
    });

    it("says why it cannot be made, and what the program that answers wrote", async () => {
      const failing = { command: node, args: ["-e", "console.error('no room'); process.exit(1)"] };
      await expect(openNetwork(failing, signal)).rejects.toMatchObject({
        code: "sandbox/unavailable",
        message: "no network can be made in the sandbox: no room",
      });
    });
  },
);
