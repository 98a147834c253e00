import { expect, it } from "vitest";
import { type Mount, orderMounts } from "./mounts.ts";

const read = (at: string): Mount => ({ kind: "read", at, source: at });
const write = (at: string): Mount => ({ kind: "write", at, source: at });
const memory = (at: string): Mount => ({ kind: "memory", at, size: 4096 });

const order = (...mounts: Mount[]): readonly string[] =>
  orderMounts(mounts).map(({ kind, at }) => `${kind} ${at}`);

it("makes outer mounts first, in whatever order they are given", () => {
  expect(order(write("/tmp/a/ws"), read("/tmp/a"), memory("/tmp"))).toEqual([
    "memory /tmp",
    "read /tmp/a",
    "write /tmp/a/ws",
  ]);
});

it("lets what may be written win, at its path and inside of it", () => {
  expect(order(read("/a/ws"), write("/a/ws"), read("/a/ws/data"))).toEqual(["write /a/ws"]);
});

it("leaves out what is there to be read already", () => {
  const link: Mount = { kind: "link", at: "/bin", target: "usr/bin" };
  expect(order(read("/usr"), read("/usr/lib/ext"), link, read("/bin/x"))).toEqual(["read /usr", "link /bin"]);
});

it("does not take a neighbour with a longer name for something inside", () => {
  expect(order(read("/a/b"), read("/a/bc"))).toEqual(["read /a/b", "read /a/bc"]);
});

it("needs one file system in memory for all that lies in it", () => {
  expect(order(memory("/tmp"), memory("/tmp/home"), memory("/home/me"))).toEqual([
    "memory /tmp",
    "folder /tmp/home",
    "memory /home/me",
  ]);
});

it("always has processes and devices of its own, even when everything may be read", () => {
  const mounts: Mount[] = [
    read("/"),
    read("/proc"),
    read("/dev/x"),
    { kind: "proc", at: "/proc" },
    { kind: "devices", at: "/dev" },
  ];
  expect(order(...mounts, memory("/dev/shm"), memory("/tmp"), write("/tmp/ws"))).toEqual([
    "read /",
    "proc /proc",
    "devices /dev",
    "memory /tmp",
    "write /tmp/ws",
    "memory /dev/shm",
  ]);
});
