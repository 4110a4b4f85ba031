import { act, renderHook } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { useRowBase } from "./use-row-base";

interface Item {
  updated_at: string;
  title: string;
  done: boolean;
}

const first: Item = { updated_at: "1", title: "Hall", done: false };
const renamed: Item = { updated_at: "2", title: "Two halls", done: false };

function start(initial: { fresh: Item | null; isDirty: boolean; isBusy?: boolean }) {
  const load = vi.fn();
  const hook = renderHook(
    (props: typeof initial) => useRowBase({ ...props, load, read: (item) => item && { title: item.title } }),
    { initialProps: initial },
  );
  return { ...hook, load };
}

test("newer row replaces an unedited form", () => {
  const { result, rerender, load } = start({ fresh: first, isDirty: false });
  rerender({ fresh: renamed, isDirty: false });
  expect(load).toHaveBeenCalledExactlyOnceWith(renamed);
  expect(result.current).toMatchObject({ base: renamed, isStale: false });
  // And the next one after that.
  const third = { ...renamed, updated_at: "3", title: "Three halls" };
  rerender({ fresh: third, isDirty: false });
  expect(result.current.base).toBe(third);
});

test("newer row with edits requires a decision", () => {
  const { result, rerender, load } = start({ fresh: first, isDirty: true });
  rerender({ fresh: renamed, isDirty: true });
  expect(result.current).toMatchObject({ base: first, isStale: true });
  expect(load).not.toHaveBeenCalled();
  act(() => result.current.keepMine());
  expect(result.current).toMatchObject({ base: renamed, isStale: false });
  expect(load).not.toHaveBeenCalled();
  rerender({ fresh: { ...first, updated_at: "3" }, isDirty: true });
  expect(result.current.isStale).toBe(true);
  act(() => result.current.loadTheirs());
  expect(load).toHaveBeenCalledTimes(1);
});

test("change of an unedited column is ignored", () => {
  const { result, rerender, load } = start({ fresh: first, isDirty: true });
  const done = { ...first, updated_at: "2", done: true };
  rerender({ fresh: done, isDirty: true });
  expect(result.current).toMatchObject({ base: done, isStale: false });
  expect(load).not.toHaveBeenCalled();
});

test("row received during a save is handled afterwards", () => {
  const { result, rerender, load } = start({ fresh: first, isDirty: true });
  rerender({ fresh: renamed, isDirty: true, isBusy: true });
  expect(result.current).toMatchObject({ base: first, isStale: false });
  rerender({ fresh: renamed, isDirty: true, isBusy: false });
  expect(result.current.isStale).toBe(true);
  expect(load).not.toHaveBeenCalled();
});

test("first row by another user is newer than none", () => {
  const { result, rerender } = start({ fresh: null, isDirty: true });
  rerender({ fresh: first, isDirty: true });
  expect(result.current).toMatchObject({ base: null, isStale: true });
});
