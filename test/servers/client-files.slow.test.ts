import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parse as parseToml } from "smol-toml";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { EventBody } from "../../src/model/event.ts";
import {
  mcpConfigText,
  writeClientFiles,
  writeMcpConfigFile,
  type WrittenFiles,
} from "../../src/agents/write-client-files.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { livingWatchdogs } from "../process/support.ts";
import { type McpClient, mcpClients } from "../../src/agents/programs/presets.ts";
import { keepIn } from "../support/records.ts";

const endpoints: readonly GatewayEndpoint[] = ["calc", "my-files"].map((server) => ({
  server,
  url: `http://127.0.0.1:4242/s3cret/${server}`,
  bridge: { command: "/usr/bin/node", args: ["bridge.js", server], env: { TOKEN: "s3cret" } },
  close: () => Promise.resolve(),
}));

/** A folder whose name a shell could misread, with files in it. */
function folderWith(files: Readonly<Record<string, string>> = {}): string {
  const outer = realpathSync(mkdtempSync(join(tmpdir(), "client-files-")));
  onTestFinished(() => rmSync(outer, { recursive: true, force: true }));
  const folder = join(outer, `it's $(a) "Ámbar 漢" \\n;`);
  mkdirSync(folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** All files of a folder, and what there is to know of them; folders end with a slash. */
function contents(folder: string): Record<string, unknown> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted();
  return Object.fromEntries(
    names.map((name) => {
      const path = join(folder, name);
      const found = lstatSync(path);
      if (found.isSymbolicLink()) return [name, `link to ${readlinkSync(path)}`];
      if (found.isDirectory()) return [`${name}/`, "folder"];
      const mode = (found.mode & 0o777).toString(8);
      return [name, { text: readFileSync(path, "latin1"), mode, inode: found.ino, modified: found.mtimeMs }];
    }),
  );
}

function write(
  folder: string,
  clients: readonly McpClient[],
  options: {
    readonly connect?: "http" | "bridge";
    readonly signal?: AbortSignal;
    readonly events?: EventBody[];
  } = {},
): Promise<WrittenFiles> {
  const { connect, signal = new AbortController().signal, events = [] } = options;
  return writeClientFiles(folder, clients, endpoints, {
    ...(connect === undefined ? {} : { connect }),
    emit: keepIn(events),
    signal,
  });
}

const program = { command: "/usr/bin/node", env: { TOKEN: "s3cret" } };
const named = (server: string) => ({ ...program, args: ["bridge.js", server] });
const typed = (server: string) => ({ type: "stdio", ...named(server) });
const urlOf = (server: string) => `http://127.0.0.1:4242/s3cret/${server}`;
const address = (server: string) => ({ type: "http", url: urlOf(server) });
const opencodeProgram = (server: string) => ({
  type: "local",
  command: [program.command, "bridge.js", server],
  environment: program.env,
  enabled: true,
});
const all = { tools: ["*"] };
const codexWaits = { required: true, startup_timeout_sec: 600 };
const qwenWaits = { discoveryTimeoutMs: 300_000 };

type Form = (server: string) => object;
/** The file of each client, its table of servers, and an entry for a server over HTTP and over the bridge. */
const forms: Readonly<Record<McpClient, readonly [file: string, key: string, http: Form, bridge: Form]>> = {
  "claude-code": [".mcp.json", "mcpServers", address, typed],
  codex: [
    ".codex/config.toml",
    "mcp_servers",
    (server) => ({ url: urlOf(server), ...codexWaits }),
    (server) => ({ ...named(server), ...codexWaits }),
  ],
  gemini: [".gemini/settings.json", "mcpServers", (server) => ({ httpUrl: urlOf(server) }), named],
  copilot: [
    ".mcp.json",
    "mcpServers",
    (server) => ({ ...address(server), ...all }),
    (server) => ({ ...typed(server), ...all }),
  ],
  opencode: [
    "opencode.json",
    "mcp",
    (server) => ({ type: "remote", url: urlOf(server), enabled: true }),
    opencodeProgram,
  ],
  "qwen-code": [
    ".qwen/settings.json",
    "mcpServers",
    (server) => ({ httpUrl: urlOf(server), ...qwenWaits }),
    (server) => ({ ...named(server), ...qwenWaits }),
  ],
  vscode: [".vscode/mcp.json", "servers", address, typed],
  cursor: [".cursor/mcp.json", "mcpServers", (server) => ({ url: urlOf(server) }), named],
};

describe.each(mcpClients)("the file of %s", (client) => {
  it.each(["http", "bridge"] as const)("points to servers over %s until it is removed", async (connect) => {
    const folder = folderWith();
    const events: EventBody[] = [];
    const files = await write(folder, [client], { connect, events });
    const [file, key, http, bridge] = forms[client];
    const path = join(folder, file);
    const text = readFileSync(path, "utf8");
    const form = connect === "http" ? http : bridge;
    const parsed: unknown = client === "codex" ? parseToml(text) : JSON.parse(text);
    expect(parsed).toEqual({ [key]: { calc: form("calc"), "my-files": form("my-files") } });
    expect(statSync(path).mode & 0o777).toBe(process.platform === "win32" ? 0o666 : 0o600);
    expect(events).toEqual([{ type: "client_config.written", client, path, action: "created" }]);
    await files.restore();
    await files.restore();
    expect(contents(folder)).toEqual({});
  });
});

describe("a user's own file", () => {
  const json =
    '\uFEFF{\r\n  // mine\r\n  "theme": "dark",\r\n  "mcpServers": { "calc": { "url": "old" }, "own": {} },\r\n}\r\n';
  const toml = '# mine\nmodel = "o"\nratio = 1.0\n\n[mcp_servers.own]\nurl = "http://own"\n';

  it("is merged into, and restored as the same file", async () => {
    const folder = folderWith({
      ".gemini/settings.json": json,
      ".codex/config.toml": toml,
      "other.txt": "x",
    });
    chmodSync(join(folder, ".gemini/settings.json"), 0o640);
    const before = contents(folder);
    const files = await write(folder, ["gemini", "codex"]);
    expect(readFileSync(join(folder, ".gemini/settings.json"), "utf8").replaceAll("\r", "")).toBe(`{
  // mine
  "theme": "dark",
  "mcpServers": { "calc": {
      "httpUrl": "${urlOf("calc")}"
    },
    "own": {},
    "my-files": {
      "httpUrl": "${urlOf("my-files")}"
    }
  },
}
`);
    const waits = "required = true\nstartup_timeout_sec = 600\n";
    expect(readFileSync(join(folder, ".codex/config.toml"), "utf8")).toBe(
      `${toml}\n[mcp_servers.calc]\nurl = "${urlOf("calc")}"\n${waits}\n[mcp_servers.my-files]\nurl = "${urlOf("my-files")}"\n${waits}`,
    );
    await files.restore();
    expect(contents(folder)).toEqual(before);
  });

  it("is rewritten where it has a server of the same name, and integers stay integers", async () => {
    const text =
      'whole = 5\nhuge = 9007199254740993\nratio = 1.0\n\n[mcp_servers.calc]\nurl = "http://own"\n';
    const folder = folderWith({ ".codex/config.toml": text });
    const files = await write(folder, ["codex"]);
    const merged = readFileSync(join(folder, ".codex/config.toml"), "utf8");
    expect(merged).toContain("whole = 5\nhuge = 9007199254740993\nratio = 1.0\n");
    expect(merged).toContain("http://127.0.0.1:4242/s3cret/calc");
    expect(merged).not.toContain("http://own");
    await files.restore();
    expect(readFileSync(join(folder, ".codex/config.toml"), "utf8")).toBe(text);
  });

  it("is restored whatever became of the written file, and other new files stay", async () => {
    const folder = folderWith({ ".mcp.json": "{}" });
    const before = contents(folder);
    const events: EventBody[] = [];
    const files = await write(folder, ["copilot", "claude-code", "gemini", "cursor"], { events });
    const written = events.flatMap((event) =>
      event.type === "client_config.written" ? `${event.client} ${event.action}` : [],
    );
    expect(written).toEqual(["copilot replaced", "claude-code replaced", "gemini created", "cursor created"]);
    writeFileSync(join(folder, ".mcp.json"), "changed");
    rmSync(join(folder, ".cursor"), { recursive: true });
    writeFileSync(join(folder, ".gemini/notes"), "the agent's");
    await files.restore();
    const after = contents(folder);
    expect(after).toMatchObject({ ...before, ".gemini/": "folder" });
    expect(Object.keys(after)).toEqual([".gemini/", ".gemini/notes", ".mcp.json"]);
  });

  it.each([
    [".mcp.json", "claude-code", '{ "mcpServers": ', "ValueExpected at line 1, column 17"],
    [".mcp.json", "claude-code", "[]", "the file is not an object"],
    [".vscode/mcp.json", "vscode", '{"servers": []}', '"servers" is not an object'],
    [
      ".codex/config.toml",
      "codex",
      'token = "s"\nx = ',
      "Invalid TOML document: invalid value at line 2, column 5",
    ],
  ] as const)("%s of %s that cannot be read is left as it is: %s", async (name, client, text, reason) => {
    const folder = folderWith({ [name]: text });
    const before = contents(folder);
    await expect(write(folder, ["cursor", client])).rejects.toMatchObject({
      code: "agent/client-config",
      message: `cannot add servers to ${join(folder, name)}: ${reason}`,
    });
    expect(contents(folder)).toEqual(before);
  });

  it("that is not text, not a file, or has a backup in the way, is left unchanged", async () => {
    const folder = folderWith({
      "opencode.json/x": "",
      ".vscode/mcp.json": "{}",
      ".vscode/mcp.json.mcpvals-backup": "{}",
    });
    writeFileSync(join(folder, ".mcp.json"), Buffer.from([0x7b, 0xff, 0x7d]));
    writeFileSync(join(folder, ".cursor"), "a file");
    const before = contents(folder);
    for (const client of ["claude-code", "opencode", "cursor", "vscode"] as const)
      await expect(write(folder, [client])).rejects.toMatchObject({ code: "agent/client-config" });
    expect(contents(folder)).toEqual(before);
  });
});

describe.skipIf(process.platform === "win32")("links", () => {
  it("are not followed out of the folder", async () => {
    const folder = folderWith();
    const outside = folderWith({ "mcp.json": "{}" });
    symlinkSync(join(outside, "mcp.json"), join(folder, ".mcp.json"));
    symlinkSync(outside, join(folder, ".cursor"));
    symlinkSync("nowhere", join(folder, "opencode.json"));
    const before = [contents(folder), contents(outside)];
    const refused = async (client: McpClient): Promise<string> => {
      const error: unknown = await write(folder, [client]).catch((reason: unknown) => reason);
      return error instanceof Error ? error.message.replaceAll(folder, "FOLDER") : "";
    };
    expect([await refused("claude-code"), await refused("cursor"), await refused("opencode")]).toEqual([
      "FOLDER/.mcp.json is a link that leads out of FOLDER",
      "FOLDER/.cursor is a link that leads out of FOLDER",
      "FOLDER/opencode.json is a link that leads nowhere",
    ]);
    expect([contents(folder), contents(outside)]).toEqual(before);
  });

  it("within the folder are restored as links", async () => {
    const folder = folderWith({ "conf/mcp.json": '{"own":1}' });
    symlinkSync("conf/mcp.json", join(folder, ".mcp.json"));
    const before = contents(folder);
    const files = await write(folder, ["claude-code"]);
    expect(JSON.parse(readFileSync(join(folder, ".mcp.json"), "utf8"))).toMatchObject({
      own: 1,
      mcpServers: {},
    });
    expect(readFileSync(join(folder, "conf/mcp.json"), "utf8")).toBe('{"own":1}');
    await files.restore();
    expect(contents(folder)).toEqual(before);
  });
});

describe("one folder for several runs", () => {
  it("is used by one after the other in this process", async () => {
    const folder = folderWith({ ".mcp.json": "{}" });
    const before = contents(folder);
    const first = await write(folder, ["claude-code"]);
    const order: string[] = [];
    const gone = new AbortController();
    const second = write(join(folder, "."), ["claude-code"]).then((files) => {
      order.push("second");
      return files;
    });
    const impatient = write(folder, ["cursor"], { signal: gone.signal });
    gone.abort(new Error("no time"));
    await expect(impatient).rejects.toThrow("no time");
    const third = write(folder, ["claude-code"]);
    order.push("restore");
    await first.restore();
    await (await second).restore();
    await (await third).restore();
    expect(order).toEqual(["restore", "second"]);
    expect(contents(folder)).toEqual(before);
  });

  it("is refused while another process uses it", async () => {
    const folder = folderWith();
    const other = await startOther(folder, "cursor");
    await expect(write(folder, ["claude-code"])).rejects.toMatchObject({
      code: "agent/client-config",
      message: `another run of mcpvals (process ${other.child.pid}) has its config files in ${folder}`,
    });
    await other.end("restore");
    expect(contents(folder)).toEqual({});
    await (await write(folder, ["claude-code"])).restore();
  });
});

describe("after an end of this process without restore", () => {
  const files = { ".mcp.json": '{"own": 1}', ".codex/config.toml": "x = 1\n" };
  const clients = ["claude-code", "codex", "gemini", "opencode"];

  it("by an exception the folder is as it was", async () => {
    const folder = folderWith(files);
    const before = contents(folder);
    const other = await startOther(folder, ...clients);
    expect(Object.keys(contents(folder))).toContain("opencode.json");
    await other.end("throw");
    expect(contents(folder)).toEqual(before);
  });

  it.skipIf(process.platform === "win32")("by SIGKILL the watchdog puts the folder back", async () => {
    const folder = folderWith(files);
    const before = contents(folder);
    const other = await startOther(folder, ...clients);
    expect(contents(folder)).not.toEqual(before);
    other.child.kill("SIGKILL");
    await vi.waitFor(() => expect(contents(folder)).toEqual(before), { timeout: 100_000, interval: 10 });
  });

  it.runIf(process.platform === "linux")("without a watchdog the next run puts it back first", async () => {
    const folder = folderWith(files);
    const before = contents(folder);
    const other = await startOther(folder, ...clients);
    for (const pid of await livingWatchdogs(other.marker)) process.kill(pid, "SIGKILL");
    const ended = once(other.child, "exit");
    other.child.kill("SIGKILL");
    await ended;
    expect(contents(folder)).not.toEqual(before);
    const next = await write(folder, ["claude-code"]);
    expect(JSON.parse(readFileSync(join(folder, ".mcp.json"), "utf8"))).toMatchObject({ own: 1 });
    expect(Object.keys(contents(folder))).not.toContain("opencode.json");
    await next.restore();
    expect(contents(folder)).toEqual(before);
  });

  it("a forged journal does not change other files", async () => {
    const folder = folderWith({ "inner/keep.txt": "keep" });
    const inner = join(folder, "inner");
    const listed = ["../inner/keep.txt", join(inner, "keep.txt"), "keep.txt", 5, null];
    const claims = listed.map((file) => ({ file, replaced: false, madeFolder: true }));
    writeFileSync(join(inner, ".mcpvals-client-files.json"), JSON.stringify({ pid: -1, files: claims }));
    await (await write(inner, ["cursor"])).restore();
    expect(Object.keys(contents(folder))).toEqual(["inner/", "inner/keep.txt"]);
  });
});

it("reports a file that cannot be restored", async () => {
  const folder = folderWith({ ".mcp.json": "{}" });
  const files = await write(folder, ["claude-code"]);
  rmSync(join(folder, ".mcp.json.mcpvals-backup"));
  await expect(files.restore()).rejects.toMatchObject({
    code: "agent/client-config",
    message: `cannot put back the config files in ${folder}: ${join(folder, ".mcp.json.mcpvals-backup")} is gone`,
  });
  await (await write(folder, ["claude-code"])).restore();
});

it("writes a separate file for programs that take its path", async () => {
  for (const [connect, form] of [["http", address] as const, ["bridge", typed] as const])
    expect(JSON.parse(mcpConfigText(endpoints, connect))).toEqual({
      mcpServers: { calc: form("calc"), "my-files": form("my-files") },
    });
  const ofQwen = {
    calc: { httpUrl: urlOf("calc"), ...qwenWaits },
    "my-files": { httpUrl: urlOf("my-files"), ...qwenWaits },
  };
  expect(JSON.parse(mcpConfigText(endpoints, "http", "qwen-code"))).toEqual({ mcpServers: ofQwen });
  expect(mcpConfigText(endpoints, "http", "opencode")).toBe(mcpConfigText(endpoints));
  const file = await writeMcpConfigFile(endpoints);
  expect(readFileSync(file.path, "utf8")).toBe(mcpConfigText(endpoints));
  expect(statSync(file.path).mode & 0o077).toBe(process.platform === "win32" ? 0o066 : 0);
  file.remove();
  file.remove();
  expect(() => statSync(dirname(file.path))).toThrow("ENOENT");
});

interface Other {
  readonly child: ReturnType<typeof spawn>;
  readonly marker: string;
  end(how: string): Promise<void>;
}

/** Another process that has written files into a folder. */
async function startOther(folder: string, ...clients: readonly string[]): Promise<Other> {
  const script = fileURLToPath(new URL("../fixtures/agents/write-client-files.ts", import.meta.url));
  const child = spawn(process.execPath, [script, folder, ...clients]);
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += String(chunk)));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const marker = String((await lines.next()).value);
  const written = await lines.next();
  if (written.value !== "written") throw new Error(stderr);
  return {
    child,
    marker,
    async end(how) {
      const ended = once(child, "exit");
      child.stdin.write(`${how}\n`);
      await ended;
    },
  };
}
