import { useQuery } from "@tanstack/react-query";
import { act, screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import type { TableWatch } from "@/lib/live";
import { renderElement } from "@/test/render";
import { useLivePublicRows } from "./use-live-public-rows";

const watches: TableWatch[] = [];
vi.mock("@/lib/live", () => ({
  watchTables: (added: TableWatch[]) => {
    watches.push(...added);
    return () => undefined;
  },
}));

const queryKey = ["rows"];
let reads = 0;

function Rows() {
  // One of several queries under the key, as the logos are.
  const { data } = useQuery({ queryKey: [...queryKey, "small"], queryFn: () => ++reads });
  useLivePublicRows("marketing_content", queryKey);
  return <output>{data}</output>;
}

beforeEach(() => {
  reads = 0;
  watches.length = 0;
  vi.useFakeTimers({ shouldAdvanceTime: true });
  return () => vi.useRealTimers();
});

async function joinedRows() {
  renderElement(<Rows />);
  await act(() => vi.advanceTimersByTimeAsync(4000));
  await vi.waitFor(() => expect(watches).toHaveLength(1));
  const [watch] = watches;
  if (!watch) throw new Error("not watched");
  return { changed: () => act(async () => watch.changed()), joined: () => act(async () => watch.joined?.()) };
}

test("joining soon after the rows were read reads them once", async () => {
  const { joined, changed } = await joinedRows();
  await joined();
  expect(reads).toBe(1);
  await changed();
  await vi.waitFor(() => expect(screen.getByRole("status")).toHaveTextContent("2"));
});

test("joining again reads what was missed", async () => {
  const { joined } = await joinedRows();
  await joined();
  await joined();
  expect(reads).toBe(2);
});

test("joining late reads the rows again", async () => {
  const { joined } = await joinedRows();
  await act(() => vi.advanceTimersByTimeAsync(31_000));
  await joined();
  expect(reads).toBe(2);
});
