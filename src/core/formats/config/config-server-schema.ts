import * as z from "zod";
import { closedObject, duration, filledText, httpUrl } from "./config-fields.ts";
import { unconfined } from "../lay-sandbox.ts";
import { mockSchema } from "./mock-schema.ts";
import { sandboxLimits, sandboxSchema } from "./sandbox-schema.ts";
import { authSchema, sharedServerFields } from "./server-parts-schema.ts";

const auth = authSchema
  .optional()
  .meta({ description: "How the server is told who asks.", defaultText: "not" });

const headers = z
  .record(filledText, z.string())
  .default({})
  .meta({ description: "HTTP headers sent with every request. Their values are kept out of traces." });

const stdioServer = closedObject({
  transport: z.literal("stdio").meta({ description: "A program that talks over stdin and stdout." }),
  command: filledText.meta({
    description: "The program to start. Those in `node_modules/.bin` above `cwd` are found by name.",
  }),
  args: z.array(z.string()).default([]).meta({ description: "Its arguments." }),
  env: z
    .record(z.string().regex(/^[^=\0]+$/, { error: "must be the name of a variable" }), z.string())
    .default({})
    .meta({ description: "Environment variables for the program, on top of a small safe set." }),
  cwd: filledText.optional().meta({
    description: "Folder that the program starts in, relative to the config file.",
    defaultText: "the config file's folder",
  }),
  inheritEnv: z
    .union([z.array(filledText), z.literal(true)])
    .default([])
    .meta({
      description:
        "Variables to pass on from your own environment, by name; `true` passes on all of them. Without it a server gets only what programs need to start (`PATH`, `HOME`, …).",
    }),
  sandbox: sandboxSchema.optional().meta({
    description: "What confines the program. Its other settings may stand here too.",
    defaultText: "`none`",
  }),
  ...sandboxLimits(),
  ...sharedServerFields,
})
  .superRefine((server, context) => {
    const [key] = unconfined(server);
    if (key === undefined) return;
    const message = `has ${JSON.stringify(key)}, but nothing says which sandbox confines it: write sandbox: process, or sandbox: none`;
    context.addIssue({ code: "custom", message });
  })
  .meta({ id: "StdioServer", title: "Server over stdio", description: "A local program." });

const shttpServer = closedObject({
  transport: z.literal(["shttp", "http"]).meta({ description: "Streamable HTTP." }),
  url: httpUrl.meta({ description: "The server's MCP address." }),
  headers,
  auth,
  ...sharedServerFields,
}).meta({ id: "ShttpServer", title: "Server over Streamable HTTP", description: "A server with a URL." });

const sseServer = closedObject({
  transport: z.literal("sse").meta({ description: "The older HTTP+SSE transport." }),
  url: httpUrl.meta({ description: "The address of the event stream." }),
  headers,
  auth,
  reconnect: z
    .boolean()
    .optional()
    .meta({ description: "Accepted so that older configs stay valid; has no effect." }),
  reconnectInterval: duration
    .optional()
    .meta({ description: "Accepted so that older configs stay valid; has no effect." }),
  maxReconnectAttempts: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "Accepted so that older configs stay valid; has no effect." }),
  ...sharedServerFields,
}).meta({
  id: "SseServer",
  title: "Server over HTTP+SSE",
  description: "A server that speaks only the older HTTP+SSE transport.",
});

const mockServer = closedObject({
  transport: z.literal("mock").meta({ description: "Written answers in the place of a server." }),
  mock: mockSchema.meta({ description: "What it offers and answers." }),
  ...sharedServerFields,
}).meta({ id: "MockServer", title: "Mock server", description: "A server that is only written answers." });

/** The keys that each kind of server has. */
export const shapesOfKinds = {
  stdio: stdioServer.shape,
  shttp: shttpServer.shape,
  sse: sseServer.shape,
  mock: mockServer.shape,
};

/** Every key that some kind of server has. */
export const serverShapes = {
  ...sseServer.shape,
  ...stdioServer.shape,
  ...shttpServer.shape,
  ...mockServer.shape,
};

/** How to start or reach one MCP server. */
export const serverSchema = z
  .discriminatedUnion("transport", [stdioServer, shttpServer, sseServer, mockServer])
  .meta({ id: "Server", title: "Server", description: "One MCP server; `transport` says which kind." });

/** A server as parsed: defaults filled in, durations in milliseconds. */
export type ParsedServer = z.output<typeof serverSchema>;
