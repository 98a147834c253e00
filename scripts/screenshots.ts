import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Browser } from "playwright-core";
import { serveDashboard } from "../src/dashboard/server.ts";
import { runFolders } from "../src/store/run-files.ts";
import { openPage, startBrowser } from "../test/dashboard/browser.ts";

/**
 * `npm run screenshots`: the pictures of the dashboard in the documentation, in light and dark, of runs that are made for them. It needs
 * `npm run build` and a Chromium.
 */
const root = resolve(import.meta.dirname, "..");
const images = join(root, "docs/images");

/** Three official servers, an agent that works with care and one that does not. */
const config = {
  name: "assistant",
  servers: {
    notes: { transport: "stdio", command: "mcp-server-filesystem", args: ["./notes"] },
    memory: {
      transport: "stdio",
      command: "mcp-server-memory",
      env: { MEMORY_FILE_PATH: "${TMPDIR}/memory.jsonl" },
    },
    calculator: { transport: "stdio", command: "mcp-server-everything", tools: ["get-sum", "echo"] },
  },
  toolHealthSuites: [
    {
      name: "notes",
      server: "notes",
      parallel: true,
      tests: [
        {
          name: "list_directory",
          description: "lists the notes",
          args: { path: "." },
          expectedResult: "meeting.txt",
        },
        {
          name: "read_text_file",
          description: "refuses to leave its folder",
          args: { path: "../secret.txt" },
          expectedError: "access denied",
        },
      ],
    },
  ],
  workflows: [
    {
      name: "find the next review",
      servers: ["notes"],
      steps: [
        {
          user: "Look through the notes and tell me when the next review is.",
          expectedState: "Thursday at ten",
        },
      ],
      expectTools: ["list_directory", "read_text_file"],
    },
    {
      name: "remember a colleague",
      servers: ["memory"],
      steps: [
        { user: "Remember that Ada Lovelace works on the analytical engine." },
        { user: "What do you know about Ada?", expectedState: "analytical engine" },
      ],
      expectTools: ["create_entities", "search_nodes"],
    },
    {
      name: "add up the expenses",
      servers: ["calculator"],
      steps: [{ user: "I paid 12 for lunch and 30 for the train. How much is that?", expectedState: "42" }],
      expectTools: ["get-sum"],
    },
  ],
  agent: "careful",
  agents: {
    careful: {
      type: "scripted",
      plan: {
        "find the next review": [
          { call: "list_directory", args: { path: "." } },
          { call: "read_text_file", args: { path: "meeting.txt" } },
          { say: "The next review is on Thursday at ten." },
        ],
        "remember a colleague": [
          {
            call: "create_entities",
            args: {
              entities: [
                {
                  name: "Ada Lovelace",
                  entityType: "person",
                  observations: ["works on the analytical engine"],
                },
              ],
            },
          },
          { say: "Noted." },
          { call: "search_nodes", args: { query: "Ada" } },
          { say: "Ada Lovelace works on the analytical engine." },
        ],
        "add up the expenses": [{ call: "get-sum", args: { a: 12, b: 30 } }, { say: "That is 42." }],
      },
    },
    hasty: {
      type: "scripted",
      plan: {
        "find the next review": [
          { call: "read_text_file", args: { path: "review.txt" } },
          { say: "The next review is on Thursday at ten." },
        ],
        "remember a colleague": [
          { say: "I have noted that." },
          { call: "search_nodes", args: { query: "Ada" } },
          { say: "Ada Lovelace works on the analytical engine." },
        ],
        "add up the expenses": [
          { call: "get-sum", args: { a: "12", b: "30" } },
          { call: "get-sum", args: { a: 12, b: 30 } },
          { say: "That is 42." },
        ],
      },
    },
  },
};

const cwd = mkdtempSync(join(tmpdir(), "mcpvals-screenshots-"));
try {
  writeFileSync(join(cwd, "assistant.json"), JSON.stringify(config));
  cpSync(join(root, "examples/quickstart/notes"), join(cwd, "notes"), { recursive: true });
  const agents = [["hasty"], ["hasty"], ["careful", "hasty"], ["careful"]];
  for (const names of agents)
    mcpvals("run", "assistant.json", "-n", "3", ...names.flatMap((name) => ["-a", name]));
  const server = join(root, "examples/bad-server/server.mjs");
  const args = [server, "crash", "hidden-text", "no-description", "output-schema"];
  const mcpServers = { "bad-server": { command: process.execPath, args } };
  writeFileSync(join(cwd, "servers.json"), JSON.stringify({ mcpServers }));
  mcpvals("check", "servers.json");

  const runs = join(cwd, ".mcpvals/runs");
  const [, hasty = "", both = "", careful = "", check = ""] = (await runFolders(runs)).toSorted();
  const pages = {
    runs: "/",
    run: `/runs/${both}`,
    findings: `/runs/${check}/findings`,
    servers: `/runs/${both}/servers`,
    trial: `/runs/${both}/trials/t14`,
    compare: `/compare?a=${hasty}&b=${careful}`,
  };
  await using dashboard = await serveDashboard({ runs, cwd, port: 0 });
  const browser = await startBrowser();
  mkdirSync(images, { recursive: true });
  for (const theme of ["light", "dark"] as const)
    await takeAll(browser, dashboard.address(), { theme, pages });
  await browser.close();
} finally {
  rmSync(cwd, { recursive: true, force: true });
}

function mcpvals(...args: readonly string[]): void {
  const { status, stderr } = spawnSync(process.execPath, [join(root, "dist/main.js"), ...args], {
    cwd,
    env: { PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`, HOME: cwd, TMPDIR: cwd },
    encoding: "utf8",
  });
  // 1: something failed, which the pictures show.
  if (status !== 0 && status !== 1) throw new Error(`mcpvals ${args.join(" ")}: ${status}\n${stderr}`);
}

async function takeAll(
  browser: Browser,
  address: string,
  { theme, pages }: { readonly theme: "light" | "dark"; readonly pages: Readonly<Record<string, string>> },
): Promise<void> {
  await using opened = await openPage(browser, address, { theme, width: 1200 });
  for (const [name, path] of Object.entries(pages)) {
    await opened.go(path);
    await opened.page.screenshot({ path: join(images, `${name}-${theme}.png`) });
  }
}
