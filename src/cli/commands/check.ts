import { countOf } from "../../base/visible-text.ts";
import { relative } from "node:path";
import { type Command, Option } from "commander";
import { asList, exact } from "../../base/json.ts";
import { type CallPolicy, callPolicies } from "../../model/check-settings.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import type { Snapshot } from "../../check/snapshot.ts";
import { loadTarget, type Target } from "../../formats/target.ts";
import { checkServers } from "../../run/check-servers.ts";
import {
  addMaxWarningsFlag,
  addReporterFlag,
  addTarget,
  collect,
  duration,
  type SetExitCode,
  type TargetFlags,
  targetOf,
} from "../flags.ts";
import { exitCodeOf, openReporters } from "../open-reporters.ts";
import type { WatchedOutcome } from "../watch.ts";
import {
  abortOnInterrupt,
  askAtTerminal,
  stdoutOutput,
  workingFolder,
  writeError,
  writeNotes,
  hideSecrets,
} from "../terminal.ts";
import { showWaiting } from "../waiting.ts";

interface CheckFlags extends TargetFlags {
  readonly calls?: CallPolicy;
  readonly disable?: readonly string[];
  readonly enable?: readonly string[];
  readonly maxWarnings?: number;
  readonly callTimeout?: number;
  readonly reporter?: readonly string[];
  readonly output?: string;
  readonly snapshot?: string;
  readonly update?: boolean;
  readonly conformance?: boolean;
  readonly security?: boolean;
  readonly watch?: boolean;
}

/** `mcpvals check`: reports what is wrong with servers. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addMaxWarningsFlag(addReporterFlag(addTarget(command)))
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .addOption(
      new Option(
        "--calls <which>",
        "tools to call: safe (annotated readOnlyHint: true; the default), all, none",
      ).choices(callPolicies),
    )
    .option("--disable <code>", "leave out findings with this code; repeatable", collect)
    .option(
      "--enable <code>",
      "report findings that are reported only on request, such as client/openai-strict; repeatable",
      collect,
    )
    .option(
      "--call-timeout <duration>",
      "time limit of each request, such as 500ms (default: 5s); initialize has the server's startupTimeout (default: 30s)",
      duration,
    )
    .option("--snapshot <file>", "fail when definitions differ from those in this file")
    .option("--update", "write the snapshot in place of comparing with it")
    .option("--conformance", "run the official conformance suite, too (@modelcontextprotocol/conformance)")
    .option(
      "--security",
      "run the servers in a sandbox with planted secrets, send hostile arguments, and watch what they touch",
    )
    .option("-w, --watch", "check again when a file of a server changes, until it is ended")
    .action(async (_: unknown, flags: CheckFlags) => setExitCode(await execute(targetOf(command), flags)));
}

async function execute(target: Target, flags: CheckFlags): Promise<number> {
  using interrupt = abortOnInterrupt(flags);
  const { signal } = interrupt;
  if (flags.watch !== true) return (await checkOnce(target, flags, { signal })).code;
  const { terminalKeys, watch } = await import("../watch.ts");
  return await watch({
    signal,
    byTask: false,
    keys: terminalKeys(),
    execute: (_, onLoaded) => checkOnce(target, flags, { signal, onLoaded }),
  });
}

interface OnceOptions {
  readonly signal: AbortSignal;
  readonly onLoaded?: (loaded: LoadedConfig) => void;
}

async function checkOnce(
  target: Target,
  flags: CheckFlags,
  { signal, onLoaded }: OnceOptions,
): Promise<WatchedOutcome> {
  const {
    calls,
    disable,
    enable,
    maxWarnings,
    callTimeout: callMs,
    output,
    snapshot,
    update,
    conformance,
    security,
  } = flags;
  const cwd = workingFolder();
  const loaded = await loadTarget(target, { cwd, signal, ask: askAtTerminal() });
  hideSecrets(loaded.secrets);
  writeNotes(loaded);
  onLoaded?.(loaded);
  const specs = flags.reporter ?? loaded.eval.reporters;
  const reporters = openReporters(specs);
  using waiting = showWaiting(`checking ${Object.keys(loaded.eval.servers).join(", ")}`);
  const isReported = stdoutOutput().isTerminal && specs.some((spec) => !spec.includes("="));
  const outcome = await checkServers(loaded, {
    cwd,
    signal,
    reporters,
    onPlanned: () => isReported && waiting[Symbol.dispose](),
    onSnapshot: (file, listed) => writeError(`Wrote ${relative(cwd, file)}: ${listedText(listed)}`),
    onUnused: (entries) => {
      for (const { code, server, tool, prompt, resource, parameter } of entries) {
        const place = Object.entries({ server, tool, prompt, resource, parameter }).flatMap(([kind, name]) =>
          name === undefined ? [] : [`${kind} ${name}`],
        );
        writeError(
          `check.accepted: nothing was found that fits ${[code, ...place].join(", ")}. If it was repaired, remove the entry; else check its names.`,
        );
      }
    },
    isWhole: loaded.file !== undefined && target.server === undefined,
    ...exact({
      calls,
      disable,
      enable,
      maxWarnings,
      callMs,
      output,
      snapshot,
      update,
      conformance,
      security,
    }),
  });
  const { result } = outcome;
  return { code: exitCodeOf(result, outcome.failures), result };
}

/** What a snapshot has of each server: `notes (2 tools, 1 prompt)`. */
function listedText(listed: Snapshot): string {
  const servers = Object.entries(listed).map(([server, listing]) => {
    const counts = Object.entries(listing).flatMap(([list, items]) => {
      const count = asList(items).length;
      return count === 0
        ? []
        : countOf(count, list === "resourceTemplates" ? "resource template" : list.slice(0, -1));
    });
    return `${server} (${counts.length === 0 ? "nothing" : counts.join(", ")})`;
  });
  return servers.length === 0 ? "no server listed anything" : servers.join(", ");
}
