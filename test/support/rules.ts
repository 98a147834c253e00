import { afterAll, describe, expect, it } from "vitest";
import type { CheckKind, CheckSpec, PlannedCall, PlannedRead, ProbeName } from "../../src/model/check.ts";
import { exact, type Json, type JsonObject } from "../../src/base/json.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { findDefects } from "../../src/check/catalogue.ts";
import { type CheckView, readCheck } from "../../src/check/check-view.ts";
import type { EventOf } from "../../src/model/event.ts";
import type { Finding } from "../../src/model/finding.ts";
import { type SentRequest, TrialEvents, workflowTask } from "./trial-events.ts";

/** A server as a check finds it: what it says in the handshake, what it lists, and how it answers calls. */
export interface CheckedServer {
  /** What the trial checks; `definitions` unless there are calls. */
  readonly kind?: CheckKind;
  readonly hello?: JsonObject;
  readonly tools?: readonly JsonObject[];
  readonly resources?: readonly JsonObject[];
  readonly resourceTemplates?: readonly JsonObject[];
  readonly prompts?: readonly JsonObject[];
  readonly calls?: readonly CheckedCall[];
  readonly reads?: readonly CheckedRead[];
  readonly notCalled?: CheckSpec["notCalled"];
  readonly sharedNames?: CheckSpec["sharedNames"];
  /** What the server sends by itself after the handshake; `early`: before it answers. */
  readonly sends?: readonly JsonObject[];
  readonly early?: readonly JsonObject[];
  /** Members that the first page of each list has besides its items. */
  readonly page?: JsonObject;
}

/** A call that a check makes, and what becomes of it. */
export interface CheckedCall extends Partial<PlannedCall> {
  readonly result?: Json;
  readonly error?: { readonly code: number; readonly message: string };
  /** Instead of an answer: the server exits with this code. */
  readonly exits?: number;
  /** Instead of an answer in time: whether it answers a ping meanwhile. */
  readonly answersPing?: boolean;
  /** What it answers when the call was given up. */
  readonly late?: Json;
  /** The `_meta` of the request. */
  readonly meta?: JsonObject;
  /** What the server sends by itself before it answers. */
  readonly sends?: readonly JsonObject[];
  /** Whether its answer breaks the connection. */
  readonly breaks?: boolean;
  /** What the server touches meanwhile. */
  readonly touches?: readonly Touch[];
}

type Touch = Pick<EventOf<"server.access">, "access" | "target" | "failed"> &
  Partial<Pick<EventOf<"server.access">, "by">>;

/** A resource or prompt that a check reads, and what becomes of it. */
export interface CheckedRead extends PlannedRead {
  readonly result?: Json;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A tool in which nothing is wrong, but for what is given. */
export function tool(definition: JsonObject = {}): JsonObject {
  return {
    name: "search",
    description: "Finds notes by the words in them.",
    inputSchema: schemaOf({}),
    annotations: { readOnlyHint: true },
    ...definition,
  };
}

/** An input schema in which nothing is wrong but the properties. */
export function schemaOf(properties: JsonObject, rest: JsonObject = {}): JsonObject {
  return {
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
    ...rest,
  };
}

/** What rules see of a server. */
export function viewOf({
  calls = [],
  reads = [],
  kind = reads.length > 0 ? "reads" : calls.length === 0 ? "definitions" : "calls",
  hello = {},
  notCalled = [],
  sharedNames = [],
  sends = [],
  early = [],
  page = {},
  ...lists
}: CheckedServer): CheckView {
  const planned = calls.map(
    ({ tool: name = "search", args = {}, expects = "result", why = "a test", attack }) => ({
      tool: name,
      args,
      expects,
      why,
      ...exact({ attack }),
    }),
  );
  const check: CheckSpec = {
    kind,
    disable: [],
    calls: planned,
    notCalled,
    sharedNames,
    ...(reads.length === 0 ? {} : { reads }),
  };
  const trial = new TrialEvents();
  const server = "notes";
  const probe = (name: ProbeName, play: () => void, call?: number, read?: number): void => {
    trial.emit({
      type: "probe.started",
      server,
      probe: name,
      ...(call === undefined ? {} : { call }),
      ...(read === undefined ? {} : { read }),
    });
    play();
    const { exits, breaks = false } = calls[call ?? -1] ?? {};
    const outcome = exits === undefined && !breaks ? "done" : "lost";
    const tooLarge = {
      code: "server/message-too-large",
      kind: "environment",
      message: "a message of 12 MB",
    } as const;
    trial.emit({
      type: "probe.finished",
      server,
      probe: name,
      outcome,
      durationMs: 1,
      ...(breaks ? { error: tooLarge } : {}),
    });
  };
  const exchange = (method: string, params: JsonObject, result: Json): number =>
    trial.answer(trial.send(method, params, { server }), result);
  probe("list", () => {
    const protocolVersion = "2025-11-25";
    const capabilities = Object.fromEntries(Object.keys(lists).map((list) => [list, {}]));
    const serverInfo = { name: server, version: "1.0.0" };
    const hi = trial.send("initialize", { protocolVersion, capabilities: {} }, { server });
    for (const message of early) trial.receive(server, message);
    trial.answer(hi, { protocolVersion, capabilities, serverInfo, ...hello });
    for (const message of sends) trial.receive(server, message);
    for (const [list, items] of Object.entries(lists)) {
      const method = list === "resourceTemplates" ? "resources/templates/list" : `${list}/list`;
      exchange(method, {}, { [list]: items, ...page });
    }
  });
  for (const [index, call] of calls.entries()) {
    let sent: SentRequest | undefined;
    probe(
      call.attack === undefined ? "call" : "attack",
      () => {
        const { tool: name, args } = planned[index] ?? { tool: "", args: {} };
        const { meta, sends: sentFirst = [] } = call;
        const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
        const request = trial.send("tools/call", params, { server });
        sent = request;
        for (const message of sentFirst) trial.receive(server, message);
        const { result, error, exits, answersPing, touches = [] } = call;
        for (const touch of touches) trial.emit({ type: "server.access", server, by: "trace", ...touch });
        if (error !== undefined) trial.refuse(request, error.code, error.message);
        else if (result !== undefined) trial.answer(request, result);
        else if (exits !== undefined)
          trial.emit({
            type: "server.exited",
            server,
            exitCode: exits,
            signal: null,
            expected: false,
          });
        else {
          const ping = trial.wait(5000).send("ping", {}, { server });
          if (answersPing === true) trial.answer(ping, {});
        }
      },
      index,
    );
    if (call.late !== undefined && sent !== undefined) trial.answer(sent, call.late);
  }
  for (const [index, { kind: of, name, args, result, error }] of reads.entries())
    probe(
      "read",
      () => {
        const [method, params] =
          of === "resource"
            ? ["resources/read", { uri: name }]
            : ["prompts/get", { name, ...(args === undefined ? {} : { arguments: args }) }];
        const request = trial.send(method, params, { server });
        if (error === undefined) trial.answer(request, result ?? null);
        else trial.refuse(request, error.code, error.message);
      },
      undefined,
      index,
    );
  const task = { ...workflowTask({ turns: [], servers: [server] }), form: "check", check } as const;
  return readCheck(trial.trajectory(task), check);
}

/** Servers by what is special about them, for each rule: those in which it finds something, and those in which it finds nothing. */
export type RuleCases = Readonly<
  Record<string, { readonly bad: CheckedServers; readonly good?: CheckedServers }>
>;
type CheckedServers = Readonly<Record<string, CheckedServer>>;

/** Tests of rules: one for each case. */
export function testRules(cases: RuleCases): void {
  // No outcome of a rule's test depends on how fast the machine is.
  const validator = new SchemaValidator(600_000);
  afterAll(() => validator[Symbol.asyncDispose]());
  const find = async (server: CheckedServer): Promise<readonly Finding[]> =>
    findDefects(viewOf(server), { validateSchema: validator.validate.bind(validator) });
  describe.each(Object.entries(cases))("%s", (code, { bad, good = {} }) => {
    it.each(Object.entries(bad))("finds %s", async (_, server) => {
      const findings = await find(server);
      expect(findings.map((finding) => finding.code)).toContain(code);
    });
    it.each(Object.entries(good))("does not mind %s", async (_, server) => {
      const findings = await find(server);
      expect(findings.filter((finding) => finding.code === code)).toEqual([]);
    });
  });
}
