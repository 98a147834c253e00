// A raw loop that speaks the protocol, and breaks it in the way that the operation's name says. `faulty` runs it on any streams,
// so that most tests need no process.
import { spawn } from "node:child_process";
import { appendFileSync, closeSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

const params = {
  no: { type: "object", properties: { why: { type: "string" } }, additionalProperties: false },
  logs: { type: "object", properties: { count: { type: "integer", default: 3 } } },
  ok: {
    type: "object",
    properties: { size: { type: "integer", default: 7 }, note: { type: "string" }, deep: {} },
    additionalProperties: false,
  },
};
const phases = { silent: ["verify"], write: ["setup", "cleanup"] };

/** `exit` ends the program, after which `hasExited` is true. */
export async function faulty({ stdin, stdout, stderr, env, pid, exit, hasExited }) {
  const note = (text) => env.NOTES && appendFileSync(env.NOTES, `${text}\n`);
  const write = (text) => stdout.write(text);
  const send = (message) => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const log = (message, data) => send({ method: "log", params: { level: "info", message, data } });
  const done = (id, more = {}) => send({ id, result: { success: true, ...more } });

  note(`start ${pid}`);
  stderr.write(`ready in ${env.FLAVOUR ?? "no flavour"}\n`);
  let count = 0;
  let settings;

  const operations = {
    ok: (id, { args, context }) =>
      done(id, {
        message: "fine",
        outputs: { args, context, count, pid, settings, home: env.SHELL_ONLY },
      }),
    no: (id, { args }) =>
      send({ id, result: { success: false, message: args.why ?? "it is not so", outputs: { seen: 3 } } }),
    silent: () => undefined,
    unasked: () => done(99),
    "as-text": (id) => done(String(id)),
    twice: (id) => write(`${JSON.stringify({ jsonrpc: "2.0", id, result: { success: true } })}\n`.repeat(2)),
    "twice-later": (id) => (done(id), setTimeout(() => done(id), 50)),
    "large-later": (id) => (done(id), setTimeout(() => write(`${"x".repeat(11 << 20)}\n`), 50)),
    empty: (id) => send({ id }),
    both: (id) => send({ id, result: { success: true }, error: { code: -1, message: "and yet" } }),
    "error-null": (id) => send({ id, result: { success: true }, error: null }),
    "no-result": (id) => send({ id, result: { ok: true } }),
    "no-jsonrpc": (id) => write(`${JSON.stringify({ id, result: { success: true } })}\n`),
    "no-json": (id) =>
      write(`{"jsonrpc":"2.0","id":${id},"result":{"success":true,"outputs":{"rate":NaN}}}\n`),
    "no-answer": (id) => (write(`{"id":${id},"rate":1}\n{"rate":NaN}\n`), done(id)),
    secrets: (id, { args: { secret } }) => {
      write(`${"x ".repeat(998)}${secret}\n`);
      stderr.write(`${secret} ${"y".repeat(4090)}\n`);
      const data = { note: `${"z ".repeat(490)}${secret}` };
      setTimeout(() => send({ id, error: { code: -1, message: "and so on", data } }), 50);
    },
    "null-id": () => send({ id: null, error: { code: -32700, message: "cannot read it" } }),
    rpc: (id) => send({ id, error: { code: -32601, message: "no such method", data: { asked: "execute" } } }),
    large: (id) => {
      write(`{"jsonrpc":"2.0","id":${id},"result":{"success":true,"message":"`);
      const chunk = "x".repeat(1 << 20);
      for (let index = 0; index < 12; index += 1) write(chunk);
      write('"}}\n');
    },
    twins: (id) =>
      write(`{"jsonrpc":"2.0","id":${id},"result":{"success":false,"note":"\\"method\\"","success":true}}\n`),
    deep: (id) =>
      write(
        `{"jsonrpc":"2.0","id":${id},"result":{"success":true,"outputs":{"a":${"[".repeat(5000)}${"]".repeat(5000)}}}}\n`,
      ),
    unfinished: (id) => {
      write(`{"jsonrpc":"2.0","id":${id},"result":{"success":true}}`);
      setTimeout(() => exit(0), 20);
    },
    "half-crash": (id) => {
      write(`{"jsonrpc":"2.0","id":${id},"res`);
      setTimeout(() => exit(5), 20);
    },
    closes: () => {
      closeSync(1);
      setInterval(() => undefined, 1000);
    },
    "exit-0": () => exit(0),
    "exit-3": () => (stderr.write("the disk is full\n"), exit(3)),
    killed: () => process.kill(process.pid, "SIGKILL"),
    "exit-after": (id) => (done(id), setTimeout(() => exit(0), 20)),
    orphan: () => {
      const child = spawn("sleep", ["1003"], { stdio: "inherit" });
      note(`orphan ${child.pid}`);
      setTimeout(() => exit(0), 20);
    },
    noise: (id) => (write("Listening on port 80\n[1, 2]\n\n"), done(id)),
    logs: (id, { args }) => {
      for (let index = 0; index < args.count; index += 1) log(`line ${index}`, { index });
      done(id);
    },
    "large-log": (id) => (log("x".repeat(300 * 1024)), done(id)),
    storm: (id) => {
      for (let index = 0; index < 200_000; index += 1) log("storm");
      done(id);
    },
    flood: () => {
      const pour = () =>
        hasExited() || stdout.write(`${"noise ".repeat(30)}\n`.repeat(1000), () => setImmediate(pour));
      pour();
    },
    "bad-log": (id) => (send({ method: "log", params: { level: "shout", message: "x" } }), done(id)),
    hang: (id, { args }) => {
      process.on("SIGTERM", () => (note("cancelled"), args.stubborn || exit(0)));
      setInterval(() => undefined, 1000);
    },
    "hang-hard": () => sleep(1e9),
    // Takes its course from the first of the files with courses.
    course: (id, { context: { workdir } }) => {
      const [name] = readdirSync(workdir)
        .filter((each) => each.startsWith("course."))
        .sort();
      const course = readFileSync(join(workdir, name), "utf8").trim();
      rmSync(join(workdir, name));
      if (course === "good" || course === "bad") send({ id, result: { success: course === "good" } });
      else if (course === "broken") exit(3);
      else setInterval(() => undefined, 1000);
    },
    write: (id, { args }) => (writeFileSync(args.path, "written"), done(id)),
  };

  for await (const line of createInterface({ input: stdin })) {
    const { id, method, params: given } = JSON.parse(line);
    note(method === "execute" ? `execute ${given.operation} in ${given.context.phase}` : method);
    const flavour = env.FLAVOUR;
    if (method === "initialize") {
      settings = given.config;
      if (flavour === "mute") continue;
      if (flavour === "old")
        send({ id, result: { name: "f", version: "1", protocolVersion: "9.0.0", operations: {} } });
      else if (flavour === "no-manifest")
        send({ id, result: { name: "f", version: "1", protocolVersion: "0.0.1", operations: [1] } });
      else if (flavour === "dies") exit(4);
      else {
        const names = Object.keys(operations).filter((name) => flavour !== "poor" || name === "no");
        const declared = names.map((name) => [
          name,
          { params: params[name] ?? { type: "object" }, ...(phases[name] && { phases: phases[name] }) },
        ]);
        send({
          id,
          result: {
            name: "faulty",
            version: "1.0.0",
            protocolVersion: "0.0.1",
            operations: Object.fromEntries(declared),
          },
        });
      }
    } else if (method === "execute") {
      count += 1;
      operations[given.operation](id, given);
    } else if (method === "shutdown") {
      if (flavour === "clinging") setInterval(() => undefined, 1000);
      else {
        send({ id, result: {} });
        exit(0);
      }
    }
  }
}

if (process.argv[1] === import.meta.filename) {
  const { stdin, stdout, stderr, env, pid } = process;
  await faulty({ stdin, stdout, stderr, env, pid, exit: process.exit, hasExited: () => false });
}
