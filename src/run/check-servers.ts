import { statSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { findConformanceSuite } from "../check/conformance-suite.ts";
import { generateCalls } from "../check/generate-calls.ts";
import { canariesIn } from "../check/canaries.ts";
import { type CheckOptions, planCheck } from "../check/plan-check.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { McpvalsError } from "../base/error.ts";
import { createRedactor, type Redact } from "../trace/redact.ts";
import { listNames } from "../base/did-you-mean.ts";
import { exact, type Json, type JsonObject, mapValues } from "../base/json.ts";
import type { AcceptedFinding } from "../model/check.ts";
import type { CheckSettings } from "../model/check-settings.ts";
import type { ServerSpec } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import { codesOnRequest, isAccepted, looksFor, unknownCode } from "../check/catalogue.ts";
import { SchemaValidator, validateOfServer } from "../graders/schema-validator.ts";
import {
  nameInSnapshot,
  readProfile,
  readSnapshot,
  refuseOtherServers,
  type Snapshot,
  writeSnapshot,
} from "../check/snapshot.ts";
import { followTokens } from "./provisioning.ts";
import { run, type RunInput, type RunOptions, type RunOutcome } from "./run.ts";

/** Trials at once. More would disturb each other's time limits on a small machine. */
const concurrency = 3;

/** Options of a check, which override the eval's, and those of its run. */
export type CheckServersOptions = Partial<
  Omit<CheckOptions, "validationOf" | "signal" | "snapshotOf" | "profileOf" | "suite" | "accepted">
> &
  RunOptions & {
    /** Codes of rules that look only when they are named. */
    readonly enable?: readonly string[];
    /** Whether the official conformance suite runs, too. */
    readonly conformance?: boolean;
    readonly signal: AbortSignal;
    /** Whether all servers of a file are checked, so that others in the snapshot are gone. */
    readonly isWhole?: boolean;
    /** The file with the definitions that the servers must have. */
    readonly snapshot?: string;
    /** Writes that file in place of comparing with it. */
    readonly update?: boolean;
    /** Called with the definitions that were written to the file. */
    readonly onSnapshot?: (file: string, listed: Snapshot) => void;
    /** Called with what `accepted` of the config has and the check did not find. */
    readonly onUnused?: (entries: readonly AcceptedFinding[]) => void;
    /** Called when all servers have given their lists, and the run begins. */
    readonly onPlanned?: () => void;
  };

const defaults: CheckSettings = {
  calls: "safe",
  disable: [],
  enable: [],
  accepted: [],
  callMs: 5000,
  conformance: false,
  security: false,
};

/**
 * Checks the servers of a loaded eval: lists what they offer, plans the check, and runs it. Throws as `run`, and McpvalsError
 * `usage/invalid-option` for an unknown code, for a server that cannot be started or reached, for a snapshot that cannot be
 * read or written, and for a conformance suite that is not installed.
 */
export async function checkServers(loaded: RunInput, options: CheckServersOptions): Promise<RunOutcome> {
  const { eval: spec } = loaded;
  const settings = { ...defaults, ...spec.check };
  const { calls = settings.calls, callMs = settings.callMs, maxWarnings = settings.maxWarnings } = options;
  const { signal, update = false, snapshot: file = settings.snapshot } = options;
  const { conformance = settings.conformance, security = settings.security } = options;
  const enable = [...settings.enable, ...(options.enable ?? [])];
  const disable = [
    ...settings.disable,
    ...(options.disable ?? []),
    ...codesOnRequest.filter((code) => !enable.includes(code)),
  ];
  for (const code of [...disable, ...enable]) {
    const { message, hint } = unknownCode(code) ?? {};
    if (message !== undefined) throw new McpvalsError("usage/invalid-option", message, exact({ hint }));
  }
  if (update && file === undefined)
    throw new McpvalsError("usage/invalid-option", "the snapshot cannot be updated: no file is named", {
      hint: "Name it with --snapshot FILE, or as check.snapshot in the config.",
    });
  const snapshot = file === undefined ? undefined : await readSnapshot(file, { mayBeAbsent: update });
  const isOnly = Object.keys(spec.servers).length === 1;
  const places = [join(options.cwd, sep), import.meta.url];
  const suite = conformance ? await findConformanceSuite(places) : undefined;
  // A server that the snapshot does not know has only new definitions.
  const snapshotOf: CheckOptions["snapshotOf"] =
    snapshot === undefined || update
      ? undefined
      : (name, reported) => snapshot[nameInSnapshot(snapshot, { name, reported, isOnly })] ?? {};
  const profileOf: CheckOptions["profileOf"] = (name, reported) => {
    const { profile } = snapshotOf?.(name, reported) ?? {};
    return profile === undefined ? undefined : readProfile(file ?? "", profile);
  };
  await using validator = new SchemaValidator();
  const validateSchema = validator.validate.bind(validator);
  const validationOf = (): ValidateSchema => validateOfServer(validateSchema, signal);
  const started = performance.now();
  // Planted secrets are looked for in the record, also in what has the shape of a key.
  const redact = createRedactor(loaded.secrets, (key) => canariesIn(key).length > 0);
  using _ = await followTokens(Object.values(spec.servers), redact.add);
  const { tasks: planned, records } = await planCheck(spec.servers, {
    snapshotOf,
    profileOf,
    security,
    accepted: settings.accepted,
    suite,
    calls,
    disable,
    callMs,
    validationOf,
    signal,
  }).catch((error: unknown) => {
    throw withoutSecrets(error, redact);
  });
  options.onPlanned?.();
  let written: Snapshot = {};
  const keyOf = (name: string, reported: string): string =>
    nameInSnapshot(snapshot ?? {}, { name, reported, isOnly });
  if (file !== undefined && snapshot !== undefined) {
    const current = Object.fromEntries(
      Object.entries(redact(listingsIn(planned))).map(([name, listing]) => [
        keyOf(name, listing.server),
        listing,
      ]),
    );
    refuseOtherServers(file, snapshot, current);
    const known = new Set([...Object.keys(spec.servers), ...Object.keys(current)]);
    const gone = options.isWhole === true ? Object.keys(snapshot).filter((name) => !known.has(name)) : [];
    if (gone.length > 0 && !update)
      throw new McpvalsError(
        "usage/invalid-option",
        `${file} has ${listNames(gone)}, and ${relative(options.cwd, loaded.file ?? "")} has no enabled server of this name`,
        { hint: "If that is wanted, write the snapshot again with --update, which removes it." },
      );
    if (update) {
      const kept = Object.entries(snapshot).filter(([name]) => !gone.includes(name));
      written = { ...Object.fromEntries(kept), ...mergedOver(snapshot, current) };
      writeSnapshot(file, written);
      options.onSnapshot?.(file, current);
    }
  }
  const tasks = planned.map((each): Task => {
    const { check } = each;
    // Reporters print what a server says about itself from the plan.
    const about = redact(check?.about);
    const task = check === undefined || about === undefined ? each : { ...each, check: { ...check, about } };
    const source = fileOf(loaded, spec.servers[task.servers[0] ?? ""]);
    return source === undefined ? task : { ...task, location: { file: relative(options.cwd, source) } };
  });
  const limits = { ...spec.limits, callMs };
  const outcome = await run(
    { ...loaded, eval: { ...spec, tasks, agents: [], concurrency, limits } },
    {
      ...options,
      redact,
      records,
      validateSchema,
      started,
      ...exact({ maxWarnings }),
    },
  );
  if (update && file !== undefined) {
    // What a server touches is known only now.
    const reported = new Map(
      planned.map(({ servers: [name = ""], check }) => [name, check?.about?.name ?? ""]),
    );
    const profiles = outcome.result.trials.flatMap(({ suite = "", grades }) =>
      grades.flatMap(({ profile }) => (profile === undefined ? [] : [[suite, profile] as const])),
    );
    const added = profiles.map(([name, profile]): [string, JsonObject] => {
      const key = keyOf(name, reported.get(name) ?? "");
      return [key, { ...written[key], profile }];
    });
    if (added.length > 0) writeSnapshot(file, { ...written, ...Object.fromEntries(added) });
  }
  const unused = unusedOf(settings.accepted, planned, outcome.result.trials);
  if (unused.length > 0) options.onUnused?.(unused);
  return outcome;
}

/** The accepted findings that no part has, of those that look for them; none of servers and parts that were not checked. */
function unusedOf(
  accepted: readonly AcceptedFinding[],
  tasks: readonly Task[],
  trials: RunOutcome["result"]["trials"],
): readonly AcceptedFinding[] {
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail");
  const checks = new Map(tasks.map(({ name, check }) => [name, check]));
  return accepted.filter((entry) => {
    const looking = judged.filter(({ task, suite }) => {
      const check = checks.get(task);
      const isAbout = entry.server === undefined || entry.server === suite;
      return (
        isAbout &&
        check !== undefined &&
        !check.disable.includes(entry.code) &&
        looksFor(check.kind, entry.code)
      );
    });
    const found = looking.flatMap(({ grades }) => grades.flatMap(({ findings = [] }) => findings));
    return looking.length > 0 && !found.some((finding) => isAccepted(finding, entry));
  });
}

/** An error that may quote a server. */
function withoutSecrets(error: unknown, redact: Redact): unknown {
  if (!(error instanceof McpvalsError)) return error;
  return new McpvalsError(error.code, redact(error.message), redact(error.details));
}

/** Arguments of tools, generated from their input schemas as for the calls of a check; undefined where that is impossible. */
export async function exampleArguments(
  inputSchemas: readonly Json[],
): Promise<readonly (JsonObject | undefined)[]> {
  await using validator = new SchemaValidator();
  const validateSchema = validator.validate.bind(validator);
  return await Promise.all(
    inputSchemas.map(async (schema) => (await generateCalls("", schema, validateSchema))[0]?.args),
  );
}

/** The file for findings of a server: the one that declares it, else the program, or script, of its command. */
function fileOf({ file }: RunInput, server: ServerSpec | undefined): string | undefined {
  if (file !== undefined || server?.transport !== "stdio") return file;
  const paths = [server.command, ...server.args].map((word) => resolve(server.cwd ?? ".", word));
  return paths.find((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
}

function mergedOver(snapshot: Snapshot, current: Snapshot): Snapshot {
  return mapValues(current, (listing, server) => ({
    ...(Object.hasOwn(snapshot, server) ? snapshot[server] : {}),
    ...listing,
  }));
}

/** By server, the lists from planning, where it gave some. */
function listingsIn(
  tasks: readonly Task[],
): Readonly<Record<string, JsonObject & { readonly server: string }>> {
  const names = new Map(
    tasks.flatMap(({ servers: [server], check }) =>
      check?.about === undefined ? [] : [[server, check.about.name] as const],
    ),
  );
  return Object.fromEntries(
    tasks.flatMap(({ servers: [server], check }) =>
      server === undefined || check?.listing === undefined
        ? []
        : [[server, { server: names.get(server) ?? "", ...check.listing }]],
    ),
  );
}
