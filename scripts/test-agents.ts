import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/**
 * `npm run test:agents`: installs real agent programs, about 1.5 GB, into `node_modules/.cache/agents`, or into the folder
 * that MCPVALS_AGENTS names, and tests mcpvals with them: with an empty environment and home, and in a network namespace
 * that has only loopback. However it ends, also by SIGKILL, all that it has started ends with it. Linux only, since other systems have no
 * namespaces. Names after `--` go to vitest.
 */
const programs: Readonly<Record<string, string>> = {
  "@agentclientprotocol/claude-agent-acp": "0.101.0",
  "@agentclientprotocol/codex-acp": "2.6.0",
  "@anthropic-ai/claude-code": "2.1.330",
  "@bytebase/dbhub": "1.4.0",
  "@github/copilot": "1.0.102",
  "@google/gemini-cli": "0.61.0",
  "@openai/codex": "0.169.0",
  "@qwen-code/qwen-code": "0.24.4",
  "opencode-ai": "1.18.33",
};

const root = resolve(import.meta.dirname, "..");
const folder = process.env["MCPVALS_AGENTS"] ?? join(root, "node_modules/.cache/agents");

if (process.platform !== "linux") throw new Error("the real agents are tested on Linux only");
install();
process.exitCode = runTests();

function install(): void {
  const manifest = JSON.stringify({ private: true, dependencies: programs }, undefined, 2);
  const file = join(folder, "package.json");
  const isThere = existsSync(join(folder, "node_modules")) && readFileSync(file, "utf8") === manifest;
  if (isThere) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, manifest);
  const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund"], {
    cwd: folder,
    stdio: "inherit",
  });
  if (status !== 0) {
    rmSync(file);
    throw new Error("the agents could not be installed");
  }
}

function runTests(): number {
  const home = mkdtempSync(join(tmpdir(), "mcpvals-agents-"));
  const bins = [
    join(folder, "node_modules/.bin"),
    join(root, "node_modules/.bin"),
    "/usr/local/bin:/usr/bin:/bin",
  ];
  const main = process.env["MCPVALS_TEST_MAIN"];
  const variables = [
    `PATH=${bins.join(":")}`,
    `HOME=${home}`,
    `MCPVALS_AGENTS=${folder}`,
    ...(main === undefined ? [] : [`MCPVALS_TEST_MAIN=${main}`]),
  ];
  const vitest = ["vitest", "run", "--config", "vitest.agents.config.ts", ...process.argv.slice(2)];
  // For users other than root, a user namespace is needed to create the other ones.
  const asRoot = process.getuid?.() === 0 ? [] : ["unshare", "-r"];
  // The kernel ends unshare with this process, the shell with unshare, and with the shell, which is the first process of its namespace, all others there.
  const alone = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "-n",
    "-p",
    "-f",
    "--kill-child",
    "--mount-proc",
  ];
  // The shell has to stay, since it waits for processes whose parent has ended.
  const loopback = `ip link set lo up && "$@"; exit $?`;
  const [command = "", ...rest] = [
    ...asRoot,
    ...alone,
    "sh",
    "-c",
    loopback,
    "sh",
    "env",
    "-i",
    ...variables,
    ...vitest,
  ];
  try {
    const { status, error } = spawnSync(command, rest, { cwd: root, stdio: "inherit" });
    if (error !== undefined) throw error;
    return status ?? 1;
  } finally {
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  }
}
