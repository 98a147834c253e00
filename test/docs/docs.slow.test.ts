import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { McpvalsError, renderError } from "../../src/base/error.ts";
import type { RunResult } from "../../src/model/result.ts";
import { load } from "../../src/formats/load.ts";
import { checkExtensions } from "../../src/run/prepare.ts";
import { folderOf, installPackage, linkPackage, root, runHere, runShell } from "../support/cli.ts";
import { docAnchors, type DocBlock, docBlocks, docLinks, withoutBlocks } from "./doc-blocks.ts";
import { type FakeReply, startFakeProvider } from "../support/fake-provider.ts";
import { exampleServer } from "../support/programs.ts";
import { startReleaseMirror } from "../support/release-mirror.ts";

const pages = [
  "README.md",
  "AGENTS.md",
  "CONTRIBUTING.md",
  ...globSync("docs/**/*.md", { cwd: root }),
].toSorted();
const read = (file: string): string => readFileSync(join(root, file), "utf8");
const { scripts } = JSON.parse(read("package.json")) as {
  readonly scripts: Readonly<Record<string, string>>;
};

/** What the examples import, besides mcpvals. */
const packages = ["@modelcontextprotocol/server", "zod", "@types/node", "undici-types", "vitest"];

/** A project like that of a reader who follows a page, with the example server beside the config. */
function startProject(page = ""): ReturnType<typeof folderOf> {
  const folder = folderOf({
    "package.json": { name: "docs", private: true, type: "module" },
  });
  copyFileSync(exampleServer, join(folder.path, "server.js"));
  if (page !== "docs/vitest.md") {
    linkPackage(folder.path, packages);
    return folder;
  }
  // Vitest would compile a linked package itself.
  installPackage(folder.path, packages);
  mkdirSync(join(folder.path, "node_modules/.bin"));
  symlinkSync("../vitest/vitest.mjs", join(folder.path, "node_modules/.bin/vitest"));
  const test = { maxWorkers: 1, isolate: false };
  writeFileSync(join(folder.path, "vitest.config.js"), `export default ${JSON.stringify({ test })};`);
  return folder;
}

/** A model that adds the numbers of the question with a tool and tells the result; a judge that is content. */
function actModel({ model, users, newResults, tools }: ModelQuestion): FakeReply {
  if (model === "gpt-4o") return { text: '{"score": 1, "reason": "As it should be."}' };
  const [a, b] = (users.at(-1) ?? "").match(/\d+/g)?.map(Number) ?? [];
  if (newResults.length === 0 && tools.includes("add")) return { tool: "add", args: { a, b } };
  // What attacks add to a result is none of its business.
  return { text: `The tool says: ${newResults.map(({ text }) => text.split("\n", 1)[0]).join()}` };
}

/** What stands for GitHub's releases. */
const releases = {
  "acme/shop-extension": ["v1.3.0", "v1.2.0"].map((tag) => ({
    tag,
    files: {
      "shop-extension-any.mjs": `// ${tag}`,
      "extension.yaml": `name: shop\nversion: ${tag}\noperations: { look: {} }\n`,
    },
  })),
};

interface ModelQuestion {
  readonly model: string;
  readonly users: readonly string[];
  readonly newResults: readonly { readonly text: string }[];
  readonly tools: readonly string[];
}

/** What npx starts, without the half second that it takes; test/e2e/specification.slow.test.ts goes the long way. */
const viaNpx = "npx mcpvals ";
const viaPath = "node_modules/.bin/mcpvals ";

/** Runs a block; what is wrong with it is thrown, with its place. */
class PageRunner {
  readonly #page: string;
  readonly #cwd: string;
  /** How each kind of block is run. */
  readonly #kinds: Readonly<Record<string, (block: DocBlock) => Promise<void>>> = {
    yaml: (block) => this.#checkConfig(block),
    // A later line names it.
    jsonc: (block) => Promise.resolve(void this.#write(block, `block-${block.line}.json`)),
    // A later block names it.
    csv: (block) => Promise.resolve(void this.#write(block, `block-${block.line}.csv`)),
    // Statements for a database; test/run/workers.slow.test.ts makes such a role.
    sql: () => Promise.resolve(),
    markdown: (block) => Promise.resolve(void this.#write(block, `block-${block.line}.md`)),
    ts: (block) => this.#runProgram(block),
    // A later line runs it.
    python: (block) => Promise.resolve(chmodSync(join(this.#cwd, this.#write(block, "program.py")), 0o755)),
    sh: (block) => this.#runLines(block),
    text: (block) => this.#checkOutput(block),
  };
  /** What the last command line wrote to stdout. */
  #output = "";

  constructor(page: string, cwd: string) {
    this.#page = page;
    this.#cwd = cwd;
  }

  async run(block: DocBlock): Promise<void> {
    const run = Object.hasOwn(this.#kinds, block.language) ? this.#kinds[block.language] : undefined;
    if (run === undefined) throw this.#problem(block, `no rule for a block of language "${block.language}"`);
    await run(block);
  }

  async #checkConfig(block: DocBlock): Promise<void> {
    if (block.attributes["in"] !== undefined) return this.#checkSteps(block, block.attributes["in"]);
    const file = this.#write(block, `block-${block.line}.yaml`);
    // A file that another one names is checked with that.
    if (block.attributes["of"] !== undefined) return;
    const names = [...block.text.matchAll(/\$\{(\w+)\}/g)].map(([, name = ""]) => [name, "given"]);
    await this.#mustBeValid(block, file, Object.fromEntries(names) as Record<string, string>);
  }

  /** A block that is a part of a task is completed to a task; `files` and `servers` are those that it names. */
  async #checkSteps(block: DocBlock, part: string): Promise<void> {
    const { files, servers = "notes" } = block.attributes;
    const file = `steps-${block.line}.yaml`;
    for (const name of files?.split(",") ?? []) writeFileSync(join(this.#cwd, name), "");
    const indented = block.text.replaceAll(/^(?=.)/gm, "    ");
    const head = taskHead(file, servers.split(","));
    // Graders look at a task besides its verify steps.
    const verify =
      part === "graders" ? "  verify: [{ file: { path: a.txt, expect: { exists: true } } }]\n" : "";
    writeFileSync(join(this.#cwd, file), `${head}${verify}  ${part}:\n${indented}`);
    await this.#mustBeValid(block, file);
  }

  /** As `mcpvals validate FILE` does it, in this process. */
  async #mustBeValid(
    block: DocBlock,
    file: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const cwd = this.#cwd;
    const environment = { PATH: process.env["PATH"] ?? "", HOME: cwd };
    try {
      const loaded = await load({ sources: [file], cwd, env, environment, lookOnly: true });
      await checkExtensions(loaded, cwd);
    } catch (error) {
      throw error instanceof McpvalsError ? this.#problem(block, renderError(error)) : error;
    }
  }

  /** A module with a default export is a config, unless another file names it; a test is run by a later line; any other is a program. */
  async #runProgram(block: DocBlock): Promise<void> {
    const file = this.#write(block, `block-${block.line}.ts`);
    if (file.endsWith(".test.ts") || block.attributes["of"] !== undefined) return;
    const isConfig = block.text.includes("export default");
    if (isConfig) await this.#mustPass(block, `${viaNpx}validate ${file}`);
    else await this.#runWithModels(block, `node ${file}`);
  }

  async #runLines(block: DocBlock): Promise<void> {
    for (const line of block.text.split("\n").filter((text) => text.trim() !== "" && !text.startsWith("#"))) {
      if (/^npm (?:ci|test|run)\b/.test(line)) checkNpmLine(line);
      else await this.#runWithModels(block, line);
    }
  }

  /** Runs a line with the keys that its block needs, and a model that answers for them. */
  async #runWithModels(block: DocBlock, line: string): Promise<void> {
    const needs = block.attributes["needs"]?.split(",") ?? [];
    await using provider = await startFakeProvider(actModel);
    await using mirror = await startReleaseMirror(releases);
    const env = Object.entries(provider.env).filter(([name]) =>
      needs.includes(name.replace("_BASE_URL", "_API_KEY")),
    );
    await this.#mustPass(block, line, { ...Object.fromEntries(env), MCPVALS_RELEASES_URL: mirror.url });
    if (needs.length > 0 && provider.requests.length === 0) {
      throw this.#problem(block, `${line}\nneeds ${needs.join()}, but asked no model`);
    }
  }

  async #mustPass(block: DocBlock, line: string, env: Readonly<Record<string, string>> = {}): Promise<void> {
    const cwd = this.#cwd;
    // In this process an import of a config would go vitest's way.
    const isProgram = [line, ...readdirSync(cwd)].some((text) =>
      /(?:^|\/)[\w.-]*\.(?:config\.[cm]?[jt]s|ts)\b/.test(text),
    );
    const args = isProgram ? undefined : argumentsOf(line);
    const outcome =
      args === undefined
        ? await runShell(line.replaceAll(viaNpx, viaPath), { cwd, env })
        : await runHere(args, { cwd, env });
    const { code, stdout, stderr } = outcome;
    this.#output = stdout;
    if (code !== 0) throw this.#problem(block, `${line}\nexit ${code}\n${stdout}${stderr}`);
  }

  /** `of=output`: the block is a part of what the last command line wrote, but for durations, ids of runs and the width of columns. */
  async #checkOutput(block: DocBlock): Promise<void> {
    if (block.attributes["of"] !== "output") return;
    const [shown, written] = [block.text, this.#output].map((text) =>
      text
        .replaceAll(/<?(?:\d+ (?:h|min) )?\d+(?:\.\d+)? (?:ms|s|min)\b/g, "TIME")
        .replaceAll(/\b\d{8}-\d{6}-\w+/g, "RUN")
        .replaceAll(/\s+/g, " ")
        .trim(),
    );
    if (written?.includes(shown ?? "") !== true)
      throw this.#problem(block, `is not what the command before it writes:\n${this.#output}`);
  }

  #write({ attributes, text }: DocBlock, otherwise: string): string {
    const file = attributes["file"] ?? otherwise;
    mkdirSync(dirname(join(this.#cwd, file)), { recursive: true });
    writeFileSync(join(this.#cwd, file), text);
    return file;
  }

  #problem({ line }: DocBlock, message: string): Error {
    return new Error(`${this.#page}:${line}: ${message}`);
  }
}

/** The arguments of a line that is only a command of mcpvals, without anything but quotes that is for the shell. */
function argumentsOf(line: string): string[] | undefined {
  const [, words] = /^npx mcpvals ((?:[\w@./=:, -]|"[\w/* -]+"|'[^']+')+)$/.exec(line) ?? [];
  return words
    ?.match(/(?:"[^"]*"|'[^']*'|[^ "'])+/g)
    ?.map((word) => word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"));
}

function taskHead(name: string, servers: readonly string[]): string {
  return `kind: Task
apiVersion: mcp-eval/v1
metadata:
  name: ${name}
spec:
  env: { SERVICE: "http://127.0.0.1:8080", KIND: pod }
  servers: { ${servers.map((server) => `${server}: { command: ${server} }`).join(", ")} }
  prompt: Do it.
`;
}

/** `npm ci`, `npm test` and the scripts are run by CI and below; here they must only exist. */
function checkNpmLine(line: string): void {
  for (const command of line.split("&&").map((part) => part.trim())) {
    const [, script] = /^npm (?:run )?([\w:-]+)$/.exec(command) ?? [];
    expect([command, script === "ci" || Object.hasOwn(scripts, script ?? "")]).toEqual([command, true]);
  }
}

describe.concurrent("every block of", () => {
  // A page waits for the commands of the others, since `runHere` runs one at a time: it may take as long as all together.
  it.each(pages)("%s", { timeout: 1_800_000 }, async (page) => {
    const blocks = docBlocks(read(page));
    if (blocks.length === 0) return;
    using project = startProject(page);
    const runner = new PageRunner(page, project.path);
    for (const block of blocks) await runner.run(block);
  });
});

it("every program has the right types", { timeout: 120_000 }, async () => {
  using project = startProject();
  // test/library/vitest.slow.test.ts checks the declarations themselves.
  const checks = { strict: true, noEmit: true, skipLibCheck: true };
  const options = { module: "nodenext", target: "es2024", types: ["node"], ...checks };
  writeFileSync(join(project.path, "tsconfig.json"), JSON.stringify({ compilerOptions: options }));
  const programs = pages.flatMap((page) =>
    docBlocks(read(page)).flatMap(({ language, line, text }) =>
      language === "ts" ? [{ name: `${page.replaceAll("/", "-")}-${line}.ts`, text }] : [],
    ),
  );
  for (const { name, text } of programs) writeFileSync(join(project.path, name), text);
  const { code, stdout } = await runShell("tsc -p .", { cwd: project.path });
  expect([code, stdout]).toEqual([0, ""]);
  expect(programs).not.toEqual([]);
});

it("the server of the pages answers as examples/server.js does", () => {
  const call = (name: string, args: object): object => ({
    method: "tools/call",
    params: { name, arguments: args },
  });
  const about = { capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const requests = [
    { method: "initialize", params: { protocolVersion: "2025-11-25", ...about } },
    { method: "tools/list" },
    { method: "prompts/list" },
    call("add", { a: 1, b: 2 }),
    call("add", { a: "1" }),
    call("divide", { a: 3, b: 2 }),
    call("divide", { a: 1, b: 0 }),
    call("forecast", { city: "Oslo" }),
    call("none", {}),
  ];
  const input = requests
    .map((request, id) => JSON.stringify({ jsonrpc: "2.0", id, ...request }) + "\n")
    .join("");
  const answers = (program: string): unknown[] =>
    execFileSync(process.execPath, [program], { input, encoding: "utf8" })
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { id: number })
      .toSorted((a, b) => a.id - b.id);
  const real = answers(join(root, "examples/server.js"));
  expect(real).toHaveLength(requests.length);
  expect(answers(exampleServer)).toEqual(real);
});

describe("what the pages refer to", () => {
  it.each(pages)("the links of %s lead somewhere", (page) => {
    for (const link of docLinks(read(page)).filter((target) => !/^https?:/.test(target))) {
      const [path = "", anchor] = link.split("#");
      const file = path === "" ? join(root, page) : resolve(root, dirname(page), path);
      expect([link, existsSync(file)]).toEqual([link, true]);
      if (anchor === undefined) continue;
      const anchors = docAnchors(readFileSync(file, "utf8"));
      expect([link, anchors.has(anchor)]).toEqual([link, true]);
    }
  });

  it.each(pages)("the scripts and files that %s names are there", (page) => {
    const codes = [...withoutBlocks(read(page)).matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
    for (const code of codes.filter((text) => /^npm (?:test|run [\w:-]+)$/.test(text))) checkNpmLine(code);
    const files = codes.filter((text) =>
      /^(?:src|scripts|schemas|docs|examples|test|bench)\/[\w./-]+$/.test(text),
    );
    for (const file of files) expect([file, existsSync(join(root, file))]).toEqual([file, true]);
  });
});

describe("the commands of the README for a clone", () => {
  const [first, second] = docBlocks(read("README.md"))
    .map(({ text }) => text.trim())
    .filter((text) => text.startsWith("npm ci"));

  it("are the quickstart, and what CI runs", () => {
    expect(first).toBe("npm ci && npm run quickstart");
    const steps = read(".ci/run")
      .split("\n")
      .filter((line) => line.startsWith("npm "));
    expect(steps).toEqual([second, "npm run test:slow || status=1"]);
  });

  it("end green, and say that no model took part", async () => {
    const [build, line] = scripts["quickstart"]?.split(" && ") ?? [];
    expect([build, line]).toEqual(["npm run build --silent", "node dist/main.js run examples/quickstart"]);
    using copy = startProject();
    cpSync(join(root, "examples/quickstart"), join(copy.path, "examples/quickstart"), { recursive: true });
    const run = await runHere(["run", "examples/quickstart"], { cwd: copy.path });
    expect([run.code, run.stderr]).toEqual([0, ""]);
    expect(run.stdout).toMatch(/no model took part/);
    const [result = ""] = globSync(".mcpvals/runs/*/result.json", { cwd: copy.path });
    const { verdict, summary, environment } = JSON.parse(
      readFileSync(join(copy.path, result), "utf8"),
    ) as RunResult;
    expect([verdict, summary.pass]).toEqual(["pass", summary.total]);
    expect(environment.agents).toEqual([{ name: "scripted", type: "scripted" }]);
    expect(Object.keys(environment.servers)).toHaveLength(3);
  });
});
