/** The members and fixed values of trace events, JSON-RPC, MCP tools and JSON Schema. */
const words = `
  seq at trial type task agent attempt phase durationMs server transport target pid name version protocolVersion tools
  text stream bytes exitCode signal expected by direction message raw method status requestIds kind model turn user
  reason tool args purpose finishReason usage inputTokens outputTokens cacheReadTokens cacheWriteTokens requests delayMs
  step stepType input outcome checks error verdict score grades passed actual code hint detail grader evidence
  trial.started phase.started phase.finished server.started server.ready server.stderr server.output_omitted
  server.invalid_output server.exited server.stopped mcp.message http.response agent.started turn.started agent.message
  turn.finished tool.rejected model.called model.retried step.started step.finished trial.finished trial.graded
  servers verify stop stdio shttp sse stderr stdout stdin SIGTERM SIGKILL already-exited disconnect client-to-server
  server-to-client scripted done max-steps judge completed timeout interrupted not-started pass fail skip result latency
  call environment usage bug
  client via http bridge id heldMs fault callId source builtin mcp: unknown status started failed parentCallId title
  malformed decision allowed denied cancelled policy path action created replaced program reused max-tokens refused
  server.failed gateway.connected gateway.disconnected request.held fault.injected tools.hidden tool.refused fault.unmet unmatched agent.tool
  extension extension.started extension.log extension.stderr extension.invalid_output extension.output_omitted
  extension.exited package protocol sandbox json-rpc one-shot none process docker level debug info warn count log
  agent.permission agent.told agent.usage agent.output agent.exited client_config.written skills.copied folder skills mock delay drop truncate
  jsonrpc params data initialize initialized notifications/initialized notifications/cancelled requestId tools/list
  tools/call ping arguments capabilities serverInfo clientInfo content image audio resource resource_link uri mimeType
  blob isError structuredContent _meta inputSchema outputSchema nextCursor cursor description annotations title
  object string number integer boolean array properties required additionalProperties items enum const pattern format
  minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems
  minProperties maxProperties patternProperties propertyNames prefixItems contains unevaluatedProperties
  unevaluatedItems dependentRequired dependentSchemas allOf anyOf oneOf $schema $defs definitions $ref $anchor
  $dynamicRef default examples then else
`
  .trim()
  .split(/\s+/);

/**
 * Whether a text is such a word or a part of one. Replaced in an event it would hide from the graders what happened: an
 * `isError`, a method, the event itself.
 */
export function isTraceWord(text: string): boolean {
  return words.some((word) => word.includes(text));
}
