import * as z from "zod";
import { expect, expectTypeOf, test } from "vitest";
import { defineExtension, type Extension, type Operation, operation, type OperationRun } from "./index.ts";

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
      // @ts-expect-error -- this is no Db
      open: () => ({ port: 1 }),
      operations: { count },
    });
  expect(define().manifest.name).toBe("db");
});

test("a definition that lacks what it needs is refused when the program starts", () => {
  const nothing = operation({ params: z.object({}), run: () => undefined });
  expect(() => defineExtension({ name: "", version: "1", operations: { nothing } })).toThrow("needs a name");
  expect(() => defineExtension({ name: "a", version: "", operations: { nothing } })).toThrow(
    "needs a version",
  );
  expect(() => defineExtension({ name: "a", version: "1", operations: {} })).toThrow("has no operations");
  expect(() => operation({ params: z.object({}), phases: [], run: () => undefined })).toThrow(
    "phases is empty",
  );
});
