import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { folderOf, runHere, runIn, type RunningCli, startCli } from "../support/cli.ts";
import type { RunsDocument } from "../../src/report/documents/documents.ts";
import { ask, calcConfig, runAndOpen, startWaiting } from "./support.ts";

const address = /http:\/\/127\.0\.0\.1:(\d+)\/\?token=([\w-]+)(?:#(\S+))?/;

interface Opened {
  readonly status: number;
  readonly page: string;
  readonly port: number;
  readonly runs: RunsDocument["runs"];
}

/** Opens the address that a program has printed and gives its first page, and the runs that it lists. */
async function opened(cli: RunningCli): Promise<Opened> {
  await cli.until(address);
  const { stdout, stderr } = cli.output();
  const [, port = "", token = "", page = ""] = address.exec(stdout + stderr) ?? [];
  const entered = await ask(Number(port), `/?token=${token}`);
  const cookie = entered.headers["set-cookie"]?.[0]?.split(";")[0] ?? "";
  const { status, text } = await ask(Number(port), "/api/runs", { headers: { cookie } });
  const { runs } = JSON.parse(text) as RunsDocument;
  return { status, page, port: Number(port), runs };
}

it("mcpvals dashboard serves until Ctrl-C, and shows the run that was named", async () => {
  await using recorded = await runAndOpen(calcConfig);
  const cli = startCli(["dashboard", "latest", "--no-open"], { cwd: recorded.path });
  expect(await opened(cli)).toMatchObject({ status: 200, page: `/runs/${recorded.id}` });
  cli.child.kill("SIGINT");
  expect((await cli.finished).code).toBe(130);
});

it("mcpvals dashboard takes another port where the usual one is taken, and no other than a given one", async () => {
  using folder = folderOf({});
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => other.once("listening", done));
  const { port } = other.address() as AddressInfo;
  const { code, stderr } = await runHere(["dashboard", "-p", String(port)], { cwd: folder.path });
  other.close();
  expect(code).toBe(2);
  expect(stderr).toContain(`port ${port} cannot be used`);
  const clis = [["-p", "0"], [], []].map((flags) =>
    startCli(["dashboard", "--no-open", ...flags], { cwd: folder.path }),
  );
  const ports = (await Promise.all(clis.map(opened))).map((each) => each.port);
  expect(new Set(ports).size).toBe(3);
  for (const { child } of clis) child.kill("SIGTERM");
  await Promise.all(clis.map(({ finished }) => finished));
});

it("mcpvals dashboard says that a run does not exist", async () => {
  using folder = folderOf({});
  const { code, stderr } = await runHere(["dashboard", "nothing"], { cwd: folder.path });
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining("no single run matches") as string,
  });
});

it("run --ui shows the run, stays after it, and exits with its code", async () => {
  using folder = folderOf({ "mcp-eval.config.json": calcConfig });
  const cli = startCli(["run", "--ui", "--reporter", "json"], { cwd: folder.path });
  const { status, page } = await opened(cli);
  expect({ status, page }).toEqual({ status: 200, page: expect.stringMatching(/^\/runs\/\d{8}-/) as string });
  await cli.until(/stays until Ctrl-C/);
  cli.child.kill("SIGINT");
  const { code, stdout } = await cli.finished;
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ verdict: "fail" });
});

it("Ctrl-C at a terminal ends the run of run --ui, and once more its dashboard", async () => {
  const opener = '#!/bin/sh\n: > "$0.used"\n';
  using programs = folderOf({ "xdg-open": opener, open: opener });
  for (const name of ["xdg-open", "open"]) chmodSync(join(programs.path, name), 0o755);
  const env = { PATH: [programs.path, process.env["PATH"]].join(delimiter) };
  await using run = await startWaiting(["--ui", "--no-open"], { typed: [], env });
  const { cli, path, id } = run;
  expect((await opened(cli)).runs).toMatchObject([{ id, state: "running" }]);
  const file = readFileSync(join(path, ".mcpvals", "runs", id, "run.json"), "utf8");
  const { pid } = (JSON.parse(file) as { readonly process: { readonly pid: number } }).process;
  process.kill(pid, "SIGINT");
  await cli.until(/stays until Ctrl-C/);
  expect((await opened(cli)).runs).toMatchObject([{ id, state: "ended", verdict: "interrupted" }]);
  process.kill(pid, "SIGINT");
  expect((await cli.finished).code).toBe(130);
  expect(readdirSync(programs.path).toSorted()).toEqual(["open", "xdg-open"]);
});

it.each(["SIGINT", "SIGTERM"] as const)(
  "without a terminal, %s ends the run of run --ui and its dashboard together",
  async (name) => {
    await using run = await startWaiting(["--ui"]);
    await opened(run.cli);
    run.cli.child.kill(name);
    const { code, stderr } = await run.cli.finished;
    expect(code).toBe(130);
    expect(stderr).not.toContain("stays until Ctrl-C");
  },
);

it("run --ui ends with the run where CI is set", async () => {
  const { code, stderr } = await runIn({ "mcp-eval.config.json": calcConfig }, ["run", "--ui"], {
    CI: "true",
  });
  expect(code).toBe(1);
  expect(stderr).not.toContain("stays until Ctrl-C");
});

it("run --ui does not stay when the run could not start", async () => {
  using folder = folderOf({ "mcp-eval.config.json": { ...calcConfig, nonsense: 1 } });
  const { code, stderr } = await runHere(["run", "--ui"], { cwd: folder.path });
  expect(code).toBe(2);
  expect(stderr).not.toContain("Dashboard");
});
