import * as z from "zod";
import { jsonObject, type Model, text } from "./fields.ts";

/** The parts of a check of a server, each a task, with the names of its probes. A rule can look only for these names. */
const probeNames = {
  handshake: z.enum(["initialize"]),
  requests: z.enum([
    "handshake",
    "ping",
    "lists",
    "unknown-method",
    "unknown-tool",
    "missing-params",
    "unknown-notification",
    "cancellation",
    "concurrent",
    "malformed-json",
    "not-json-rpc",
    "logging",
    "completions",
    "unknown-session",
    "foreign-origin",
  ]),
  shutdown: z.enum(["handshake", "shutdown"]),
  definitions: z.enum(["list", "second-start"]),
  calls: z.enum(["list", "call", "cancelled-call", "concurrent-calls"]),
  reads: z.enum(["handshake", "read"]),
  stability: z.enum(["first-listing", "second-listing"]),
  security: z.enum([
    "start",
    "call",
    "attack",
    "read",
    "relist",
    "other-client",
    "all-tools",
    "later-start",
    "sessions",
    "crossed-sessions",
    "anonymous",
    "wrong-token",
    "borrowed-session",
    "borrowed-session-wrong-token",
    "preflight",
  ]),
  conformance: z.templateLiteral(["conformance ", z.string()]),
};

export type Probes = { readonly [K in keyof typeof probeNames]: z.output<(typeof probeNames)[K]> };

export type CheckKind = keyof Probes;

export const probeName = z
  .union(Object.values(probeNames))
  .describe("Name of the probe. The journal of another version may have other names.");

export type ProbeName = z.output<typeof probeName>;

/** What a hostile argument tries to do. */
const attackAims = ["read", "command", "code", "request", "sql", "template", "size"] as const;

const attack = z
  .strictObject({
    parameter: text.describe("The parameter, or variable of a template, that it is the argument of."),
    aim: z
      .enum(attackAims)
      .describe("What would show that it worked, such as `read`: a planted secret in the result."),
    form: text.describe("In which form, such as `an absolute path`."),
    isWhole: z
      .boolean()
      .describe(
        "True: a plain path, command or address, as users of the tool may give it. False: a form that gets around a check of the argument.",
      ),
  })
  .meta({ id: "Attack", description: "A hostile argument of a tool, a prompt, or a template of resources." });

const touched = z
  .strictObject({
    read: z.array(text).describe("Files that it read, or tried to."),
    write: z.array(text).describe("What it wrote, made or deleted, or tried to."),
    run: z.array(text).describe("Programs that it started."),
    connect: z
      .array(text)
      .describe("Addresses that it connected to, or tried to, and names that it looked up."),
  })
  .meta({
    id: "Touched",
    description:
      "What a server touched outside of its own program. `~` is the home folder, `{server}` the folder of the program, and a name alone a folder that it was given.",
  });

const watched = z
  .enum(["all", "files"])
  .describe(
    "`all`: every system call; `files`: only files of the planted folders, compared before and after.",
  );

export const profileSchema = z
  .strictObject({
    watched,
    start: touched.describe("Until it had listed what it offers."),
    tools: z.record(text, touched).describe("By tool, what ordinary calls of it touched besides."),
    prompts: z
      .record(text, touched)
      .describe("The same by prompt. Absent: it was made by a version that did not look at prompts.")
      .exactOptional(),
    resources: z
      .record(text, touched)
      .describe("The same by URI, and by template of URIs. Absent: as `prompts`.")
      .exactOptional(),
    sandbox: z
      .strictObject({
        kind: z.literal("process").describe("A process in a sandbox of the system."),
        network: z.array(z.literal("host")).describe("That of this machine, or none."),
        read: z.array(text).describe("Files and folders that it may read."),
        write: z.array(text).describe("Files and folders that it may read and write."),
      })
      .describe("The setting `sandbox` of a config that allows this, and no more than it can express."),
  })
  .meta({ id: "CapabilityProfile", description: "What a server touches, as it was seen in a check." });

/** What a server offers that is called, got or read: each kind as places of findings name it, and its list in a profile. */
export const calledKinds = { tool: "tools", prompt: "prompts", resource: "resources" } as const;
export type CalledKind = keyof typeof calledKinds;

const plannedCall = z
  .strictObject({
    tool: text,
    args: jsonObject,
    expects: z
      .enum(["result", "refusal"])
      .describe("`result`: the arguments are valid; `refusal`: they are not."),
    why: text.describe("How the arguments were made, such as `defaults and examples` or `path is missing`."),
    action: text
      .describe(
        "Which of the things that the tool does it is for, such as `action: read`, in the part security. Absent: the tool does one.",
      )
      .exactOptional(),
    attack: attack.describe("The hostile argument in it. Absent: none is.").exactOptional(),
  })
  .meta({ id: "PlannedCall", description: "A call of a tool with generated arguments." });

const plannedRead = z
  .strictObject({
    kind: z.enum(["resource", "prompt"]),
    name: text.describe(
      "The URI of the resource, or with `args` a template of URIs (RFC 6570); the name of the prompt.",
    ),
    args: jsonObject
      .describe(
        "Made up for a prompt that has arguments, and for the variables of a template, so that the server may refuse them.",
      )
      .exactOptional(),
    isRaw: z
      .boolean()
      .describe("Whether they stand in the URI without percent-encoding. Absent: they do not.")
      .exactOptional(),
    attack: attack.describe("The hostile argument in it. Absent: none is.").exactOptional(),
  })
  .meta({ id: "PlannedRead", description: "A resource that a check reads, or a prompt that it gets." });

const serverIdentity = {
  name: text,
  version: text,
  protocolVersion: text,
};

const serverSummary = z
  .strictObject({ ...serverIdentity, tools: z.int(), resources: z.int(), prompts: z.int() })
  .meta({
    id: "ServerSummary",
    description: "What a server says of itself, and how much it lists.",
  });

export const acceptedFinding = z
  .strictObject({
    code: text.describe("Code of the finding."),
    server: text.describe("Name of the server. Absent: any.").exactOptional(),
    tool: text
      .describe("Name of the tool. Absent: any, and findings about the whole server.")
      .exactOptional(),
    prompt: text.describe("Name of the prompt. Absent: any.").exactOptional(),
    resource: text.describe("URI of the resource, or template of URIs. Absent: any.").exactOptional(),
    parameter: text.describe("Name of the parameter. Absent: any.").exactOptional(),
    reason: text.describe("Why it is accepted."),
    date: text.describe(
      "The day on which it was accepted, such as `2026-11-29`. It is shown in reports; the entry does not expire.",
    ),
  })
  .meta({ id: "AcceptedFinding", description: "A finding that is known and accepted." });

const notCalled = z
  .strictObject({ tool: text, reason: text })
  .meta({ id: "NotCalled", description: "A tool that a check does not call: why, and what to do." });

const conformancePlan = z
  .strictObject({
    suite: z
      .strictObject({ version: text, main: text.describe("Absolute path of its main file.") })
      .describe("An installed conformance suite."),
    scenarios: z.array(text).describe("Scenarios to run."),
    skipped: z
      .array(z.strictObject({ scenario: text, reason: text }))
      .describe("Scenarios that say nothing about the server, and why."),
  })
  .meta({ id: "ConformancePlan", description: "What runs of the official conformance suite." });

/** One part of a check of a server, all that is decided before it runs. */
export const checkModel = z
  .strictObject({
    kind: z.enum(Object.keys(probeNames) as CheckKind[]),
    disable: z.array(text).describe("Codes of rules that are left out."),
    accepted: z
      .array(acceptedFinding)
      .describe("Findings that are reported as info, with their reasons. Absent: none.")
      .exactOptional(),
    skipped: text
      .describe("Why this part has nothing to do, so that its trial is skipped. Absent: it has.")
      .exactOptional(),
    calls: z
      .array(plannedCall)
      .describe("The calls to make, in order; only for `calls` and `security`.")
      .exactOptional(),
    confined: z
      .boolean()
      .describe(
        "Whether the server runs in a sandbox with planted secrets, copies of its folders and no network that leads out of it.",
      )
      .exactOptional(),
    watched: watched.describe("Only for `security`, where the server is confined.").exactOptional(),
    answers: z
      .boolean()
      .describe(
        "Whether a program of mcpvals answers in the sandbox for all names and addresses; only for `security`.",
      )
      .exactOptional(),
    notWatched: text
      .describe("Why not all that the server touches is seen; only for `security`.")
      .exactOptional(),
    profile: profileSchema
      .describe("The committed profile, which the server must not exceed; only for `security`.")
      .exactOptional(),
    reads: z
      .array(plannedRead)
      .describe("The resources to read and the prompts to get, in order; only for `reads` and `security`.")
      .exactOptional(),
    notRead: z
      .array(text)
      .describe("Resources and prompts that are not read, and why, in sentences; only for `definitions`.")
      .exactOptional(),
    about: serverSummary
      .describe("What the server said of itself when the check was planned; only for `definitions`.")
      .exactOptional(),
    notCalled: z
      .array(notCalled)
      .describe(
        "Tools that the part calls does not call, and why; only for `definitions` and `security`, which calls them where the server is confined.",
      )
      .exactOptional(),
    sharedNames: z
      .array(z.strictObject({ tool: text, servers: z.array(text) }))
      .describe(
        "Tools of which other servers of the check have one with the same name, and those servers; only for `definitions`.",
      )
      .exactOptional(),
    runsOnce: z
      .boolean()
      .describe(
        "Whether the server cannot start while it runs already, so that each start has to wait for the end of the one before.",
      )
      .exactOptional(),
    listing: jsonObject
      .describe("What the server listed when the check was planned; only for `stability`.")
      .exactOptional(),
    snapshot: jsonObject
      .describe("The committed listing that the server's must equal; only for `stability`.")
      .exactOptional(),
    conformance: conformancePlan.describe("Only for `conformance`.").exactOptional(),
  })
  .meta({
    id: "CheckPart",
    description: "One part of a check of a server, all that is decided before it runs.",
  });

export type CheckSpec = Model<typeof checkModel>;
/** A call of a tool with generated arguments. */
export type PlannedCall = Model<typeof plannedCall>;
/** A hostile argument of a call. */
export type Attack = Model<typeof attack>;
/** What a server touched outside of its own program. */
export type Touched = Model<typeof touched>;
/** What a server touches, at its start, and in calls of each tool, prompt and resource. */
export type CapabilityProfile = Model<typeof profileSchema>;

/** A part of a profile. */
export interface ProfilePart {
  /** Absent: the start. */
  readonly kind?: CalledKind;
  readonly name: string;
  readonly touched: Touched;
}

/** All parts of a profile, the start first. */
export function partsOf(profile: CapabilityProfile): readonly ProfilePart[] {
  return [
    { name: "start", touched: profile.start },
    ...partsOfKind("tool", profile.tools),
    ...partsOfKind("prompt", profile.prompts),
    ...partsOfKind("resource", profile.resources),
  ];
}

function partsOfKind(
  kind: CalledKind,
  parts: Readonly<Record<string, Touched>> = {},
): readonly ProfilePart[] {
  return Object.entries(parts).map(([name, touched]) => ({ kind, name, touched }));
}

/** A resource that a check reads, or a prompt that it gets. */
export type PlannedRead = Model<typeof plannedRead>;
/** A finding that is known and accepted. */
export type AcceptedFinding = Model<typeof acceptedFinding>;
/** A tool that a check does not call: why, and what to do. */
export type NotCalled = Model<typeof notCalled>;
/** What a server is, in a few words: what it says of itself, and how much it lists. */
export type ServerSummary = Model<typeof serverSummary>;
/** What a server says that it is; "" where it does not say. */
export type ServerIdentity = Pick<ServerSummary, keyof typeof serverIdentity>;
export type ConformancePlan = Model<typeof conformancePlan>;
/** An installed conformance suite. */
export type ConformanceSuite = ConformancePlan["suite"];
export type SkippedScenario = ConformancePlan["skipped"][number];
