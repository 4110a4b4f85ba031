import { expect, test, vi } from "vitest";
import { announceSignOut, watchSignOut } from "./deliberate-sign-out";

test("each tab is notified of a sign-out once", async () => {
  const other = new BroadcastChannel("basalt.signed-out");
  const heard = vi.fn();
  const heardElsewhere = new Promise((resolve) => {
    other.onmessage = resolve;
  });
  const unwatch = watchSignOut(heard);
  announceSignOut();
  // By now a second word would have come, had there been one: messages keep their order.
  await heardElsewhere;
  expect(heard).toHaveBeenCalledTimes(1);
  other.postMessage(null);
  await vi.waitFor(() => expect(heard).toHaveBeenCalledTimes(2));
  unwatch();
  other.close();
});
