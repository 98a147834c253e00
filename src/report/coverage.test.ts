import { describe, expect, it } from "vitest";
import { errorResult, textResult, toolTestTask, TrialEvents } from "../../test/support/trial-events.ts";
import type { RunEnvironment } from "../model/result.ts";
import { CoverageCounter, coverageGaps, coverageTotals, fitsTemplate } from "./counters.ts";

const properties = { a: { type: "number" }, b: { type: "number" } };
const listing = [
  { name: "add", inputSchema: { type: "object", properties } },
  { name: "subtract", inputSchema: { type: "object", properties } },
];

function trial(): TrialEvents {
  return new TrialEvents().begin("suite/1").server("calc", listing);
}

function count(...trials: readonly TrialEvents[]): ReturnType<CoverageCounter["result"]> {
  const counter = new CoverageCounter();
  for (const each of trials) counter.add(each.trajectory(toolTestTask({ result: 5 })));
  return counter.result();
}

describe("the coverage of a run", () => {
  it("has what servers list and no trial used", () => {
    const first = trial();
    first.call("add", { a: 1 }, textResult("1"));
    const second = trial();
    second.call("unknown", { c: 1 }, textResult("1"));
    expect(count(first, second)).toEqual({
      calc: {
        tools: { total: 2, unused: ["subtract"] },
        parameters: { total: 4, unused: ["add.b", "subtract.a", "subtract.b"] },
        errors: { total: 2, unused: ["add", "subtract"] },
      },
    });
  });

  it("has resources, templates and prompts where they were listed", () => {
    const events = trial();
    const ask = (method: string, params: Record<string, string>, result: Record<string, unknown>): void => {
      events.answer(events.send(method, params), result as never);
    };
    ask("resources/list", {}, { resources: [{ uri: "demo:a" }, { uri: "demo:b" }] });
    ask("resources/templates/list", {}, { resourceTemplates: [{ uriTemplate: "demo:page/{id}" }] });
    ask("prompts/list", {}, { prompts: [{ name: "greet" }, { name: "leave" }] });
    ask("resources/read", { uri: "demo:page/7" }, { contents: [] });
    ask("resources/read", { uri: "demo:b" }, { contents: [] });
    ask("prompts/get", { name: "greet" }, { messages: [] });
    const coverage = count(events);
    expect(coverage).toMatchObject({
      calc: {
        resources: { total: 3, unused: ["demo:a"] },
        prompts: { total: 2, unused: ["leave"] },
      },
    });
    expect(coverageTotals(coverage ?? {})).toEqual([
      { kind: "tools", used: 0, total: 2 },
      { kind: "parameters", used: 0, total: 4 },
      { kind: "resources", used: 2, total: 3 },
      { kind: "prompts", used: 1, total: 2 },
    ]);
  });

  it("has the tools of which no call failed", () => {
    const failing = trial();
    failing.call("add", { a: "x" }, errorResult("a is not a number"));
    failing.refuse(failing.request("unknown", {}), -32_602, "unknown tool");
    expect(count(failing)).toMatchObject({ calc: { errors: { total: 2, unused: ["subtract"] } } });
  });

  it("lists what was not used, without what goes without saying, and servers that no trial used", () => {
    const events = trial();
    events.call("add", { a: 1 }, textResult("1"));
    const transports = { calc: "stdio", idle: "http", mock: "mock" };
    const servers = Object.fromEntries(
      Object.entries(transports).map(([name, transport]) => [name, { transport }]),
    );
    const environment = { servers } as unknown as RunEnvironment;
    const coverage = count(events) ?? {};
    expect(coverageGaps({ coverage, environment })).toEqual([
      {
        server: "calc",
        isUsed: true,
        gaps: [
          { what: "tools", names: ["subtract"] },
          { what: "parameters", names: ["add.b"] },
          { what: "tools whose errors no test expects", names: ["add"] },
        ],
      },
      { server: "idle", isUsed: false, gaps: [] },
    ]);
    events.call("add", { b: 1 }, errorResult("a is missing"));
    events.call("subtract", { a: 1, b: 1 }, errorResult("too small"));
    expect(coverageGaps({ coverage: count(events) ?? {}, environment })).toMatchObject([{ server: "idle" }]);
  });

  it("counts no call that was refused, no mock and no check", () => {
    const refused = trial();
    const { id } = refused.send("tools/call", { name: "add", arguments: {} });
    refused.emit({ type: "tool.refused", server: "calc", tool: "add", id });
    expect(count(refused)).toMatchObject({ calc: { tools: { unused: ["add", "subtract"] } } });

    const mocked = new TrialEvents();
    mocked.emit({ type: "server.started", server: "calc", transport: "mock", target: "mock" });
    mocked.server("calc", listing);
    expect(count(mocked)).toBeUndefined();

    const counter = new CoverageCounter();
    counter.add(trial().trajectory({ ...toolTestTask({ result: 5 }), form: "check" }));
    expect(counter.result()).toBeUndefined();
  });
});

it.each([
  ["demo:page/7", "demo:page/{id}", true],
  ["demo:page/", "demo:page/{id}", true],
  ["demo:7/page", "demo:{id}/page", true],
  ["demo:7/pages", "demo:{id}/page", false],
  ["demo:ab", "demo:ab{x}b", false],
  ["other:7", "demo:{id}", false],
  ["demo:a", "demo:a", true],
])("%s fits %s: %s", (uri, template, fits) => {
  expect(fitsTemplate(uri, template)).toBe(fits);
});
