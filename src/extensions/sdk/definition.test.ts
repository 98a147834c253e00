import { describe, expect, expectTypeOf, test } from "vitest";
import * as z from "zod";
import { defineExtension, type Extension, type Operation, operation, type OperationRun } from "./index.ts";
import { paramsSchema } from "./operation.ts";

describe("the JSON Schema of arguments", () => {
  test("an object becomes JSON Schema as it is written, without a dialect", () => {
    const params = z.strictObject({
      name: z.string().min(1).describe("Who."),
      times: z.int().default(2),
      where: z.record(z.string(), z.union([z.string(), z.null()])).optional(),
    });
    expect(paramsSchema(params)).toEqual({
      type: "object",
      properties: {
        name: { type: "string", minLength: 1, description: "Who." },
        times: { type: "integer", default: 2 },
        where: {
          type: "object",
          propertyNames: { type: "string" },
          additionalProperties: { type: ["string", "null"] },
        },
      },
      required: ["name"],
      additionalProperties: false,
    });
  });

  test("limits of whole numbers that were asked for stay", () => {
    expect(paramsSchema(z.object({ row: z.int().min(1) }))["properties"]).toEqual({
      row: { type: "integer", minimum: 1 },
    });
  });

  test("either of several objects is an object too", () => {
    const params = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
    expect(paramsSchema(params)).toMatchObject({ type: "object", anyOf: [{}, {}] });
  });

  test("what is not an object, or is not JSON, is refused where it is defined", () => {
    expect(() => paramsSchema(z.string())).toThrow("params must be an object");
    expect(() => paramsSchema(z.union([z.object({}), z.string()]))).toThrow("params must be an object");
    expect(() => paramsSchema(z.object({ at: z.date() }))).toThrow("Date cannot be represented");
  });
});

describe("the types of a definition", () => {
  interface Db {
    readonly url: string;
  }

  const params = z.object({ table: z.string(), limit: z.int().default(10), where: z.string().optional() });

  test("arguments have the types of the schema after defaults, and resources those of the annotation", () => {
    const count = operation({
      params,
      run: async (args, context: OperationRun<Db>) => {
        expectTypeOf(args).toEqualTypeOf<{ table: string; limit: number; where?: string | undefined }>();
        expectTypeOf(context.resources).toEqualTypeOf<Db>();
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>();
        expectTypeOf(context.phase).toEqualTypeOf<"setup" | "verify" | "cleanup">();
        return { outputs: { count: args.limit } };
      },
    });
    expectTypeOf(count).toEqualTypeOf<Operation<Db>>();
    const plain = operation({
      params,
      run(args, context) {
        expectTypeOf(args.limit).toEqualTypeOf<number>();
        expectTypeOf(context.resources).toEqualTypeOf<unknown>();
      },
    });
    const extension = defineExtension({
      name: "db",
      version: "1.0.0",
      config: z.object({ url: z.string(), pool: z.int().default(1) }),
      open: async (config) => {
        expectTypeOf(config).toEqualTypeOf<{ url: string; pool: number }>();
        return { url: config.url };
      },
      close: (db) => {
        expectTypeOf(db.url).toEqualTypeOf<string>();
      },
      operations: { count, plain },
    });
    expectTypeOf(extension).toEqualTypeOf<Extension>();
    expect(Object.keys(extension.manifest.operations)).toEqual(["count", "plain"]);
  });

  test("an operation for other resources is refused by the compiler", () => {
    const count = operation({
      params,
      run: (_, { resources }: OperationRun<Db>) => ({ message: resources.url }),
    });
    const define = (): Extension =>
      defineExtension({
        name: "db",
        version: "1.0.0",
        // @ts-expect-error -- this is not a Db
        open: () => ({ port: 1 }),
        operations: { count },
      });
    expect(define().manifest.name).toBe("db");
  });

  test("a definition that lacks what it needs is refused when the program starts", () => {
    const nothing = operation({ params: z.object({}), run: () => undefined });
    expect(() => defineExtension({ name: "", version: "1", operations: { nothing } })).toThrow(
      "needs a name",
    );
    expect(() => defineExtension({ name: "a", version: "", operations: { nothing } })).toThrow(
      "needs a version",
    );
    expect(() => defineExtension({ name: "a", version: "1", operations: {} })).toThrow("has no operations");
    expect(() => operation({ params: z.object({}), phases: [], run: () => undefined })).toThrow(
      "phases is empty",
    );
  });
});
