import * as z from "zod";
import { errorSchema } from "../base/serialized-error.ts";
import { probeName } from "./check.ts";
import { json, jsonObject, milliseconds, type Model, text, turnEnd } from "./fields.ts";
import { gradeSchema, judgeRecordSchema, reportedSchema, usageSchema, verdictSchema } from "./grade.ts";
import { sandboxKind } from "./sandbox.ts";
import { attackModel, faultModel } from "./server.ts";

// No run loads this file: the types of events are made of it, and what is recorded is of these types.

const count = z.int().min(0);
const position = z.int().min(1);
const durationMs = milliseconds.describe("How long it took, in milliseconds.");
const server = text.describe("Name of the server.");
const client = text
  .describe(
    "Number of the agent's connection in the trial, when it is not mcpvals' own: its request ids are its own.",
  )
  .exactOptional();
const requestId = z.union([text, z.number()]).describe("The JSON-RPC id of the request.");
const turn = count.describe("Number of the user turn, from 0.");
const exit = {
  exitCode: z.int().nullable().describe("Null when a signal ended it."),
  signal: text.nullable().describe("The signal that ended it, or null."),
  expected: z.boolean().describe("Whether mcpvals ended it, or it had nothing left to do."),
};
const extension = text.describe("Alias of the extension.");
const purpose = z
  .enum(["agent", "judge", "user"])
  .describe("Who asked the model. `user`: the simulated user, whom it plays.");
const model = text.describe("The model's id.");
const stream = z.enum(["stdout", "stderr"]).describe("Where it was written.");
const written = text.describe("What was written.");

export const phase = z
  .enum(["workspace", "servers", "probe", "setup", "agent", "verify", "cleanup", "stop"])
  .describe("Part of the trial.");

const fileContent = {
  size: count.describe("In bytes."),
  sha256: text.describe("Of the bytes, in hexadecimal. Absent for a very large file.").exactOptional(),
  text: text.describe("Absent for a large file, and for bytes that are no UTF-8.").exactOptional(),
};

/** What is known of the content of a file. */
export const fileContentSchema = z.strictObject(fileContent);

export const workspaceFile = z
  .strictObject({
    path: text.describe("Relative to the workspace, with `/`."),
    kind: z
      .enum(["file", "folder", "link", "other"])
      .describe(
        "Links are followed; `link`: one that leads out of the workspace, or to nothing. `other`: a pipe, or unreadable.",
      ),
    ...fileContent,
    size: fileContent.size.exactOptional(),
  })
  .meta({ id: "WorkspaceFile", title: "Workspace file", description: "A file or folder of the workspace." });

export const check = z
  .strictObject({
    name: text.describe("What is compared."),
    passed: z.boolean().describe("Whether it is as expected."),
    expected: json.describe("What was expected."),
    actual: json.describe("What was found."),
    message: text.describe("The outcome in words."),
    evidence: z
      .enum(["sideEffect", "notRun", "pathMissing"])
      .describe(
        "Why it is no evidence. `sideEffect`: it says what the step did, not what it found. `notRun`: it failed without having looked at anything: an earlier step gave no value, a program could not run, a server broke; it is a failure all the same, but a `not` must not pass because of it. `pathMissing`: it failed because the place in JSON that it is about, or the JSON itself, does not exist. Absent: it is evidence.",
      )
      .exactOptional(),
    doubt: text
      .describe("Which mistake of its author, such as a misspelt name, may be why it found nothing.")
      .exactOptional(),
    judge: judgeRecordSchema.describe("Who judged. Absent: no model did.").exactOptional(),
  })
  .meta({ id: "Check", title: "Check", description: "The outcome of one expectation of a step." });

export const stepOutcome = z
  .enum(["passed", "failed", "error", "timeout", "skipped"])
  .describe("`skipped`: its `if` did not hold.");

export const trialOutcome = z
  .enum(["completed", "error", "timeout", "interrupted", "not-started", "skipped"])
  .describe(
    "How the trial's execution ended; only a completed trial is graded, apart from an attack that succeeded.",
  );

export const eventStamp = z.strictObject({
  seq: position.describe("Position in the trial, counting from 1: what grades cite as evidence."),
  at: z.number().describe("Milliseconds since the Unix epoch, with a fraction; differences are monotonic."),
  trial: text.describe("Id of the trial."),
  series: position
    .describe(
      "Which of the series of probes it belongs to that run at the same time, in a check of security. Absent: no other probe runs.",
    )
    .exactOptional(),
});

/** One type of event: its meaning and its members besides type and stamp. */
function event<S extends z.core.$ZodShape>(description: string, members: S): z.ZodObject<S, z.core.$strict> {
  return z.strictObject(members).meta({ description });
}

const stepPlace = {
  phase,
  step: text.describe("Id of the step in its trial."),
  parent: text.describe("The step that it belongs to. Absent for a phase's own steps.").exactOptional(),
  attempt: position.describe("Number of the attempt, counting from 1."),
};

/** What is recorded, by type. */
export const eventKinds = {
  "trial.started": event("A trial begins: its first event.", {
    task: text.describe("Name of the task."),
    agent: text.nullable().describe("Name of the agent; null when no agent takes part."),
    attempt: position.describe("Number of the attempt of the task, counting from 1."),
    imported: z
      .strictObject({
        file: text.describe("Absolute path of the file."),
        sha256: text.describe("Of its bytes, in hexadecimal."),
        run: text.describe("Id of the run that recorded it."),
      })
      .describe("The record is what mcpvals wrote into a file elsewhere. Absent: it was recorded here.")
      .exactOptional(),
  }),
  "phase.started": event("A part of the trial begins.", { phase }),
  "phase.finished": event("A part of the trial has ended.", { phase, durationMs }),
  "workspace.created": event("The trial has a folder of its own.", {
    path: text.describe("Absolute path of the folder."),
    fixtures: z.array(text).describe("What was copied into it."),
  }),
  "server.started": event("A server was started, or is about to be reached.", {
    server,
    transport: text.describe("How it is reached: `stdio`, `shttp`, `sse` or `mock`."),
    target: text.describe("Its command line or its address."),
    pid: z.int().describe("Id of its process. Absent when mcpvals did not start it.").exactOptional(),
    sandbox: sandboxKind.describe("What confines it. Absent: nothing.").exactOptional(),
    reused: z
      .literal(true)
      .describe("It had been started before this trial: its lifetime is longer than one.")
      .exactOptional(),
  }),
  "server.failed": event("A server that the trial can do without did not start.", {
    server,
    error: errorSchema,
  }),
  "server.late": event("A program was not healthy in time, and is started once more.", {
    server,
    error: errorSchema,
  }),
  "server.ready": event("The handshake with a server is complete, and its tools are listed.", {
    server,
    name: text.describe("What it says that it is called."),
    version: text.describe("The version that it says."),
    protocolVersion: text.describe("The version of MCP that was agreed on."),
    tools: count.describe("Number of tools that it lists."),
    durationMs,
  }),
  "server.stderr": event("Lines that a server wrote to stderr.", { server, text: written }),
  "server.stdout": event(
    "Lines that a program that serves at a URL wrote to stdout; over stdio, stdout is for messages.",
    { server, text: written },
  ),
  "server.invalid_output": event("A line on the stdout of a stdio server that is not a message.", {
    server,
    text: written,
  }),
  "server.output_omitted": event("A server wrote more than is recorded.", {
    server,
    stream,
    bytes: count.describe("Number of bytes that were not recorded."),
  }),
  "server.lost": event(
    "After its handshake a server exited, or broke the connection, without being stopped.",
    { server, error: errorSchema },
  ),
  "server.exited": event("The process of a server ended.", {
    server,
    ...exit,
    limit: text
      .describe("The limit of its sandbox for which mcpvals ended it. Absent: none.")
      .exactOptional(),
  }),
  "server.stopped": event("A server was stopped.", {
    server,
    by: z
      .enum(["stdin", "SIGTERM", "SIGKILL", "already-exited", "disconnect"])
      .describe(
        "What ended it: closing its stdin, or a signal. `disconnect`: only the connection was ended; the server goes on.",
      ),
    durationMs,
    survivors: count
      .describe("Processes that it had started, and that did not end by themselves. Absent: none.")
      .exactOptional(),
  }),
  "mcp.message": event("A JSON-RPC message between a server and its client, unchanged.", {
    server,
    client,
    direction: z.enum(["client-to-server", "server-to-client"]).describe("Who sent it to whom."),
    message: json.describe("The message."),
    raw: text
      .describe(
        "The text on the wire, when writing the parsed message again would give another text and it holds no secret.",
      )
      .exactOptional(),
    malformed: text
      .describe(
        "What is wrong with its text, so that readers may read it in different ways. Only of a server's messages.",
      )
      .exactOptional(),
  }),
  "http.response": event("A server with an address answered a request over HTTP.", {
    server,
    client,
    method: text.describe("The HTTP method."),
    status: z.int().describe("The HTTP status."),
    requestIds: z.array(requestId).describe("The JSON-RPC requests that it answers."),
  }),
  "gateway.connected": event("A client of the agent's connected to the gateway.", {
    server,
    client: client.unwrap(),
    via: z.enum(["http", "bridge"]).describe("By URL, or by a command that it starts."),
  }),
  "gateway.disconnected": event("Such a client has left.", { server, client: client.unwrap() }),
  "request.held": event(
    "A request waited for a rate limit before it went to the server; the wait is not the server's time.",
    { server, client, id: requestId, heldMs: milliseconds.describe("How long, in milliseconds.") },
  ),
  "server.limit_changed": event(
    "From now on another number of requests may be sent to the server at once, by all trials, since it refused one as one too many.",
    {
      server,
      client,
      from: position.describe("The number before."),
      to: position.describe("The number now. As many as trials run at once: there is no limit."),
      reason: text.describe("Why it was changed."),
    },
  ),
  "fault.injected": event("A request met a configured fault.", {
    server,
    client,
    fault: faultModel.shape.kind.describe("Its kind."),
    method: text.describe("Method of the request."),
    tool: text.describe("The tool that is called, in a call.").exactOptional(),
    id: requestId,
  }),
  "fault.unmet": event("No request met a configured fault, so that it tested nothing.", {
    server,
    fault: faultModel.shape.kind.describe("Its kind."),
    method: text.describe("The method that it is configured for."),
    tool: text.describe("The tool that it is configured for; absent: any.").exactOptional(),
  }),
  "attack.prepared": event(
    "The trial is one of `--attack`: the agent may get more, or something else, than the server sends (`attack.injected`).",
    {
      server,
      attack: attackModel.describe("The attack; of the channel `none`, the trial has none."),
      canary: text.describe("The secret that stands in the agent's reach and must not leave."),
    },
  ),
  "attack.injected": event(
    "mcpvals changed a message between the agent and the server. The message of this id, as the agent has it, is in `mcp.message`.",
    {
      server,
      client,
      part: z
        .enum(["text", "canary", "tool", "answer", "parameter", "announcement"])
        .describe(
          "What it was for: the text of the attack; the canary; a further tool in the list; the answer of such a tool; a further parameter, kept from the server; the announcement of a changed list.",
        ),
      id: requestId,
      changes: z
        .array(
          z.strictObject({
            at: text.describe("JSON pointer to the place in the message."),
            server: json
              .describe("What the server sent there, or, in a request, got. Absent: nothing.")
              .exactOptional(),
            agent: json
              .describe("What the agent got there, or, in a request, sent. Absent: nothing.")
              .exactOptional(),
          }),
        )
        .describe("Every difference between what the one side sent and the other got."),
    },
  ),
  "attack.compared": event(
    "What the trials of the same agent and task without an attack did with the tool that the attack asks for. Recorded where the agent called that tool.",
    {
      ended: z.array(text).describe("Those that came to their end: what others did not do says nothing."),
      calls: z
        .array(
          z.strictObject({
            trial: text.describe("The first trial that made it."),
            server,
            tool: text.describe("Name of the tool."),
            args: json.describe(
              "Its arguments; the text `…` from where on those of all calls would have more than 100,000 characters.",
            ),
          }),
        )
        .describe("Every call of the tool in all of them, equal ones once."),
    },
  ),
  "tools.hidden": event("Tools that the server lists and an allow-list hides from the agent.", {
    server,
    client,
    tools: z.array(text).describe("Names of the tools."),
    unmatched: z
      .array(text)
      .describe("Names and globs of the allow-list that fit no tool of this listing. Absent: none.")
      .exactOptional(),
  }),
  "tool.refused": event(
    "The agent called a tool that it may not use; the call was not passed on to the server.",
    { server, client, tool: text.describe("Name of the tool."), id: requestId },
  ),
  "transcript.read": event(
    "The trial is a session that an agent program had without mcpvals. Everything of it is what its transcript says, at the times that it says.",
    {
      program: text.describe("Who wrote it: the preset of a program, or the name of an agent or a tool."),
      file: text.describe("Absolute path of the transcript."),
      sha256: text.describe("Of its bytes, in hexadecimal."),
      session: text.describe("The program's id of the session.").exactOptional(),
      remarks: z.array(text).describe("What it does not have, or what could not be read of it."),
      failuresUnknown: z
        .literal(true)
        .describe("It does not say of uses of tools whether they failed. Absent: it does.")
        .exactOptional(),
      reported: reportedSchema
        .describe("What the tool that ran the trial says of it. Absent: nothing.")
        .exactOptional(),
    },
  ),
  "agent.started": event("An agent begins.", {
    agent: text.describe("Name of the agent."),
    kind: text.describe("Type of the agent."),
    model: model.exactOptional(),
    program: text.describe("Name and version that the program reports.").exactOptional(),
    pid: z.int().describe("Id of its process.").exactOptional(),
    instructions: z
      .array(text)
      .describe(
        "Servers whose `instructions` mcpvals adds to the system prompt of its model. Absent: none; of a program it is not known.",
      )
      .exactOptional(),
    hides: z
      .array(z.enum(["instructions", "changed-description"]))
      .describe(
        "What a program with a preset is known not to show its model: `instructions` of servers; `changed-description`, descriptions of tools that change during a turn. Absent: nothing.",
      )
      .exactOptional(),
  }),
  "agent.reported": event(
    "What an agent program reports of itself, or of a model that answered, while it runs.",
    {
      program: text.describe("Name and version.").exactOptional(),
      model: model.exactOptional(),
    },
  ),
  "turn.started": event("A user turn begins.", {
    turn,
    user: text.describe("What the user says."),
    by: z
      .enum(["user-model", "user-script"])
      .describe(
        "Who says it: a simulated user, played by a model or by written replies, whose words show nothing of the agent. Absent: the task.",
      )
      .exactOptional(),
  }),
  "user.finished": event("The simulated user, or its limit of turns, ended the conversation.", {
    reason: z
      .enum(["done", "gave-up", "max-turns", "agent-cut-off"])
      .describe(
        "`done`: it has what it wants, or no reply is left that fits. `gave-up`: it says that it cannot get it. `agent-cut-off`: the agent did not end its last turn itself.",
      ),
    text: text.describe("Its last words, which the agent did not get.").exactOptional(),
  }),
  "agent.message": event("The agent says something.", { turn, text: text.describe("What it says.") }),
  "turn.finished": event("A user turn has ended.", {
    turn,
    reason: turnEnd,
    detail: text.describe("Of `limit`: what the agent used too much of.").exactOptional(),
  }),
  "agent.tool": event(
    "A use of a tool, as the agent program reports it; the last one of a `callId` is final. Calls of servers' tools are in `mcp.message`, too, which counts.",
    {
      turn,
      callId: text.describe("The agent's id of this use."),
      name: text.describe("The tool, as the agent names it."),
      source: text.describe(
        "`mcp:SERVER`, `skill` (a load of a skill), `builtin`, or `unknown`, where the name does not tell.",
      ),
      tool: text.describe("The server's own name of the tool, for one of a server's.").exactOptional(),
      status: z.enum(["started", "completed", "failed"]).describe("How far it is."),
      args: json.describe("Its arguments.").exactOptional(),
      result: json.describe("Its result.").exactOptional(),
      parentCallId: text
        .describe("The use during which it happened, such as that of a subagent.")
        .exactOptional(),
      durationMs: milliseconds
        .describe("How long it took, where a transcript says so, in milliseconds.")
        .exactOptional(),
    },
  ),
  "agent.permission": event("The agent asked whether it may do something.", {
    turn,
    callId: text.describe("The use of a tool that it asks for.").exactOptional(),
    title: text.describe("The agent's own text."),
    decision: z.enum(["allowed", "denied", "cancelled"]).describe("What it was told."),
    policy: text.describe("The setting that decided."),
  }),
  "agent.usage": event("Tokens of a program's model.", {
    source: z
      .enum(["agent", "proxy"])
      .describe("As the agent reports them, or as mcpvals' proxy counted them, which wins."),
    model: model.exactOptional(),
    usage: usageSchema,
  }),
  "agent.output": event("Output of a program that is neither protocol nor answer.", {
    stream,
    text: written,
  }),
  "agent.exited": event("The process of an agent ended.", exit),
  "client_config.written": event("A config file points an agent to the gateway.", {
    client: text.describe("The client whose file it is."),
    path: text.describe("Path of the file."),
    action: z.enum(["created", "replaced"]).describe("`replaced`: there was one, and it is restored."),
  }),
  "skills.copied": event("Skills were copied to where the agent looks for them.", {
    folder: text.describe("Relative to the workspace."),
    skills: z.array(text).describe("Names of the skills."),
    tool: text
      .describe("The agent's tool that loads one. Absent: it reads their files with its usual tools.")
      .exactOptional(),
  }),
  "tool.rejected": event("A call that was not sent, since its tool or its arguments are wrong.", {
    tool: text.describe("The tool, as the agent named it."),
    args: json.describe("The arguments."),
    reason: text.describe("Why it was not sent."),
    server: text
      .describe("The server that offers the tool, where the arguments are why the call was not made.")
      .exactOptional(),
    known: z
      .literal(true)
      .describe("Not a tool that no server offers; the reason is another one.")
      .exactOptional(),
  }),
  "model.called": event("A model answered.", {
    purpose,
    model,
    durationMs,
    firstTokenMs: milliseconds
      .describe(
        "Time from the request to the first words, reasoning or tool call. Absent: the answer was not streamed, or empty.",
      )
      .exactOptional(),
    throttledMs: milliseconds
      .describe("Time that it had waited before, because of the provider's rate limit. Absent if it had not.")
      .exactOptional(),
    finishReason: text.describe("Why it ended its answer, as the provider says."),
    usage: usageSchema,
  }),
  "model.retried": event("A request to a model failed, and is sent again.", {
    purpose,
    model,
    attempt: position.describe("Number of the attempt that failed, counting from 1."),
    reason: text.describe("Why it failed."),
    status: z.int().describe("The HTTP status, if there was an answer.").exactOptional(),
    delayMs: milliseconds.describe("Wait before the next attempt, in milliseconds."),
  }),
  "model.waiting": event(
    "A request to a model waits, because the provider refused one of the same account as one too many.",
    {
      purpose,
      model,
      limit: position
        .describe("Requests that may be sent at once, all of which are under way.")
        .exactOptional(),
      delayMs: milliseconds.describe("Rest of the time that the provider asked to wait.").exactOptional(),
    },
  ),
  "model.limit_changed": event(
    "From now on another number of requests may be sent at once to the account of this model, by all trials.",
    {
      purpose,
      model,
      from: position.describe("The number before."),
      to: position.describe("The number now. As many as trials run at once: there is no limit."),
      reason: text.describe("Why it was changed."),
    },
  ),
  "step.started": event("An attempt of a step begins.", {
    ...stepPlace,
    stepType: text.describe("Type of the step."),
    name: text.describe("Its name in the file.").exactOptional(),
    input: jsonObject.describe("What the step works with, templates replaced."),
  }),
  "step.finished": event("An attempt of a step has ended.", {
    ...stepPlace,
    outcome: stepOutcome,
    checks: z.array(check).describe("The outcomes of its expectations."),
    outputs: jsonObject.describe("Its outputs, by name.").exactOptional(),
    durationMs,
    error: errorSchema.describe("Why it could not run.").exactOptional(),
    ignored: z
      .literal(true)
      .describe("It changes no verdict: the step says `continueOnError`, or it belongs to a cleanup.")
      .exactOptional(),
  }),
  "extension.started": event("A process of an extension was started.", {
    extension,
    package: text.describe("The package, as written in the file."),
    version: text.describe("Absent for a path without one.").exactOptional(),
    protocol: z
      .enum(["json-rpc", "one-shot"])
      .describe("`json-rpc`: one process for all operations. `one-shot`: one for each."),
    sandbox: sandboxKind.describe("What confines it."),
    pid: z.int().describe("Id of the process."),
  }),
  "extension.log": event("An extension says something about its work.", {
    extension,
    level: text.describe("Such as `info` or `warn`."),
    message: text.describe("What it says."),
    data: json.describe("Further data.").exactOptional(),
  }),
  "extension.stderr": event("Lines that an extension wrote to stderr.", { extension, text: written }),
  "extension.invalid_output": event("A line on the stdout of an extension that is not a message.", {
    extension,
    text: written,
  }),
  "extension.output_omitted": event("An extension wrote more than is recorded.", {
    extension,
    stream: z.enum(["stderr", "stdout", "log"]).describe("Where it was written."),
    count: count.describe("Number of bytes that were not recorded; of `log`, of messages."),
  }),
  "extension.exited": event("A process of an extension ended.", { extension, ...exit }),
  "probe.started": event("A probe of a check begins; everything until it ends belongs to it.", {
    server,
    probe: probeName,
    call: count.describe("Which of the planned calls it makes, from 0.").exactOptional(),
    read: count.describe("Which of the planned reads it makes, from 0.").exactOptional(),
  }),
  "probe.finished": event("A probe has ended.", {
    server,
    probe: probeName,
    outcome: z
      .enum(["done", "lost", "unanswered"])
      .describe(
        "`lost`: the server was gone. `unanswered`: something that it should have answered in time was not.",
      ),
    durationMs,
    error: errorSchema.describe("Why the server was gone, or what was not answered.").exactOptional(),
  }),
  "server.access": event(
    "A server touched something outside of its own program, in a check of its security.",
    {
      server,
      access: z
        .enum(["read", "write", "delete", "run", "connect", "resolve"])
        .describe("`run`: it started a program; `resolve`: it asked for the address of a name."),
      target: text.describe(
        "A file, a program, an address or a name. `~` is the planted home folder, `{server}` the folder of the program, and another relative path is in a folder that it was given.",
      ),
      folder: text
        .describe("The folder that the server was given in which it is. Absent: it is in none.")
        .exactOptional(),
      by: z
        .enum(["trace", "comparison"])
        .describe("`trace`: a system call was seen; `comparison`: files before and after differ."),
      failed: text
        .describe("The error of the system, such as `ENOENT`. Absent: it succeeded.")
        .exactOptional(),
      sha256: text.describe("Of the content that the file has now, or had, in hexadecimal.").exactOptional(),
    },
  ),
  "http.session": event("A server with an address opened a session for a check of its security.", {
    server,
    session: text.describe("The id that it gave."),
  }),
  "http.preflight": event("What a server with an address lets pages of another website do.", {
    server,
    origin: text.describe("The website that asked."),
    status: z.int().describe("The HTTP status."),
    allowOrigin: text.describe("Which websites may, as the answer says. Absent: none.").exactOptional(),
    allowHeaders: text.describe("Which headers they may send. Absent: the usual ones.").exactOptional(),
    allowCredentials: text
      .describe("`true`: with the cookies that the browser has of the server. Absent: it does not say.")
      .exactOptional(),
  }),
  "endpoint.requested": event(
    "A request came to the address that mcpvals listens at in a check of security.",
    {
      server,
      method: text.describe("The HTTP method."),
      target: text.describe("Path and query."),
      hasToken: z
        .boolean()
        .describe("Whether the token that the server was declared with was in its headers."),
    },
  ),
  "secret.sent": event(
    "Something that a server sent over the network of a check of security had planted secrets in it.",
    {
      server,
      target: text.describe("The host of the request, or the name that it asked the address of."),
      secrets: z.array(text).describe("Where these secrets are planted, such as `~/.ssh/id_rsa`."),
    },
  ),
  "conformance.checked": event("What the official conformance suite says of one requirement.", {
    server,
    scenario: text.describe("The scenario of the suite."),
    check: text.describe("The suite's name of the requirement."),
    description: text.describe("The requirement in words."),
    status: text.describe(
      "`SUCCESS`, `FAILURE`, `WARNING` or another word of the suite; `unfinished`: the scenario did not end in time.",
    ),
    message: text.describe("What the suite says of it.").exactOptional(),
    sources: z.array(text).describe("Where the requirement is written."),
  }),
  "workspace.files": event(
    "What a name in the settings of a grader stands for in the workspace, after the verify steps.",
    {
      name: text.describe("A path relative to the workspace, or a glob."),
      files: z.array(workspaceFile).describe("None: nothing is there."),
      incomplete: text.describe("Why there may be more than these.").exactOptional(),
    },
  ),
  "state.compared": event("The state before setup was compared with that after cleanup.", {
    differences: z.array(text).describe("What differs. None: everything was restored."),
    untouched: z
      .array(text)
      .describe("What has differed since an earlier trial of the task, and was not touched in this one."),
  }),
  "trial.finished": event("The execution of the trial has ended.", {
    outcome: trialOutcome,
    durationMs,
    error: errorSchema.describe("Why it is not completed.").exactOptional(),
  }),
  "calls.invalid": event(
    "The calls of the agent whose arguments do not fit the `inputSchema` of their tools.",
    {
      calls: z
        .array(
          z.strictObject({
            seq: position.describe("Number of the request's event."),
            causes: z.array(text).describe("What is wrong, such as `unknown key`."),
          }),
        )
        .describe("Those calls; no others are invalid."),
    },
  ),
  "trial.graded": event("The trial was graded: its last event.", {
    verdict: verdictSchema.describe("The verdict of the trial."),
    score: z.number().min(0).max(1).nullable().describe("0 to 1; null if nothing was scored."),
    grades: z.array(gradeSchema).describe("What each grader says."),
  }),
} as const;

export type EventMembers = { readonly [T in keyof typeof eventKinds]: Model<(typeof eventKinds)[T]> };

const [firstEvent, ...otherEvents] = Object.entries<z.ZodObject>(eventKinds).map(([type, members]) =>
  z
    .strictObject({ ...eventStamp.shape, type: z.literal(type).describe("What happened."), ...members.shape })
    .meta({ id: type, title: type, description: members.description ?? "" }),
);
if (firstEvent === undefined) throw new Error("there are no events");

/** An event of a trial, as a line of the journal has it. */
export const traceEventSchema = z
  .discriminatedUnion("type", [firstEvent, ...otherEvents])
  .meta({ title: "mcpvals trace event", description: "An event of a trial of mcpvals." });
