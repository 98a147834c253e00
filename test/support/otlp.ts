import { type IncomingMessage } from "node:http";
import { buffer } from "node:stream/consumers";
import { startHttp } from "./http.ts";

/** A span as a collector gets it. Times are nanoseconds since the Unix epoch. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: number;
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly {
    readonly name: string;
    readonly attributes: Readonly<Record<string, unknown>>;
  }[];
  readonly status: { readonly code: number; readonly message: string };
  readonly service: unknown;
}

/**
 * A collector on loopback that takes OTLP over HTTP with protocol buffers, and refuses with 400 what opentelemetry-proto 1.x does not
 * have: other fields, other wire types, ids of another length.
 */
export async function startCollector(): Promise<{
  readonly url: string;
  readonly spans: ReceivedSpan[];
  readonly requests: IncomingMessage["headers"][];
}> {
  const spans: ReceivedSpan[] = [];
  const requests: IncomingMessage["headers"][] = [];
  const url = await startHttp((request, response) => {
    void (async () => {
      requests.push(request.headers);
      if (request.url !== "/v1/traces" || request.headers["content-type"] !== "application/x-protobuf")
        return response.writeHead(404).end();
      try {
        spans.push(...spansIn(await buffer(request)));
        response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
      } catch (error) {
        response.writeHead(400).end(String(error));
      }
    })();
  });
  return { url, spans, requests };
}

type Type = "text" | "bytes" | "varint" | "fixed64" | "fixed32" | "double" | Message;
interface Message {
  readonly [number: number]: readonly [name: string, type: Type | (() => Message)];
}
/** Of protocol buffers. */
const wireTypes = { text: 2, bytes: 2, varint: 0, fixed64: 1, double: 1, fixed32: 5 } as const;
type Read = Readonly<Record<string, readonly unknown[]>>;

const anyValue: Message = {
  1: ["text", "text"],
  2: ["bool", "varint"],
  3: ["int", "varint"],
  4: ["double", "double"],
  5: ["list", () => ({ 1: ["values", anyValue] })],
};
const keyValue: Message = { 1: ["key", "text"], 2: ["value", anyValue] };
const event: Message = {
  1: ["time", "fixed64"],
  2: ["name", "text"],
  3: ["attributes", keyValue],
  4: ["dropped", "varint"],
};
const span: Message = {
  1: ["traceId", "bytes"],
  2: ["spanId", "bytes"],
  3: ["traceState", "text"],
  4: ["parentSpanId", "bytes"],
  5: ["name", "text"],
  6: ["kind", "varint"],
  7: ["start", "fixed64"],
  8: ["end", "fixed64"],
  9: ["attributes", keyValue],
  10: ["dropped", "varint"],
  11: ["events", event],
  12: ["droppedEvents", "varint"],
  14: ["droppedLinks", "varint"],
  15: ["status", { 2: ["message", "text"], 3: ["code", "varint"] }],
  16: ["flags", "fixed32"],
};
const scope: Message = { 1: ["name", "text"], 2: ["version", "text"], 4: ["dropped", "varint"] };
const request: Message = {
  1: [
    "resources",
    {
      1: ["resource", { 1: ["attributes", keyValue], 2: ["dropped", "varint"] }],
      2: ["scopes", { 1: ["scope", scope], 2: ["spans", span], 3: ["schema", "text"] }],
      3: ["schema", "text"],
    },
  ],
};

function spansIn(bytes: Buffer): ReceivedSpan[] {
  const messages = (value: unknown): readonly Read[] => (value ?? []) as readonly Read[];
  return messages(read(bytes, request)["resources"]).flatMap((group) => {
    const resource = attributesOf(messages(group["resource"])[0]?.["attributes"]);
    return messages(group["scopes"]).flatMap((part) =>
      messages(part["spans"]).map((each): ReceivedSpan => {
        const one = <T>(name: string, absent: T): T => (each[name]?.[0] as T | undefined) ?? absent;
        const id = (name: string, length: number): string => {
          const hex = one(name, Buffer.alloc(0)).toString("hex");
          if (hex.length !== length && !(name === "parentSpanId" && hex === ""))
            throw new Error(`${name} has ${hex.length} digits`);
          return hex;
        };
        const status = messages(each["status"])[0];
        return {
          traceId: id("traceId", 32),
          spanId: id("spanId", 16),
          parentSpanId: id("parentSpanId", 16),
          name: one("name", ""),
          kind: Number(one("kind", 0n)),
          start: one("start", 0n),
          end: one("end", 0n),
          attributes: attributesOf(each["attributes"]),
          events: messages(each["events"]).map((item) => ({
            name: String(item["name"]?.[0]),
            attributes: attributesOf(item["attributes"]),
          })),
          status: {
            code: Number(status?.["code"]?.[0] ?? 0),
            message: (status?.["message"]?.[0] ?? "") as string,
          },
          service: resource["service.name"],
        };
      }),
    );
  });
}

function attributesOf(list: readonly unknown[] = []): Record<string, unknown> {
  const pairs = (list as readonly Read[]).map(({ key, value }) => [
    String(key?.[0]),
    valueOf(value?.[0] as Read | undefined),
  ]);
  const names = pairs.map(([name]) => name);
  if (new Set(names).size !== names.length) throw new Error(`an attribute twice: ${names.join()}`);
  return Object.fromEntries(pairs) as Record<string, unknown>;
}

function valueOf(value: Read = {}): unknown {
  if (value["list"] !== undefined)
    return ((value["list"][0] as Read)["values"] ?? []).map((item) => valueOf(item as Read));
  if (value["bool"] !== undefined) return value["bool"][0] === 1n;
  if (value["int"] !== undefined) return Number(value["int"][0]);
  return value["double"]?.[0] ?? value["text"]?.[0];
}

/** Reads a message of protocol buffers, strictly. */
function read(bytes: Buffer, fields: Message): Read {
  const found: Record<string, unknown[]> = {};
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error("it ends within a number");
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const field = fields[tag >> 3];
    if (field === undefined) throw new Error(`there is no field ${tag >> 3}`);
    const [name, given] = field;
    const type = typeof given === "function" ? given() : given;
    const wanted = typeof type === "string" ? wireTypes[type] : 2;
    if ((tag & 7) !== wanted) throw new Error(`${name} has the wire type ${tag & 7}`);
    const values = (found[name] ??= []);
    if (type === "varint") values.push(varint());
    else if (wanted === 2) {
      const length = Number(varint());
      const piece = bytes.subarray(at, at + length);
      if (piece.length !== length) throw new Error(`${name} is cut off`);
      at += length;
      values.push(
        type === "text" ? piece.toString("utf8") : type === "bytes" ? piece : read(piece, type as Message),
      );
    } else {
      const size = type === "fixed32" ? 4 : 8;
      if (type === "fixed64") values.push(bytes.readBigUInt64LE(at));
      else values.push(type === "double" ? bytes.readDoubleLE(at) : bytes.readUInt32LE(at));
      at += size;
    }
  }
  return found;
}
