import { act, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { renderElement } from "@/test/render";
import { SendAgain } from "./send-again";

afterEach(() => void vi.useRealTimers());

test("mail can be sent again after 30 seconds", async () => {
  vi.useFakeTimers();
  const send = vi.fn(async () => {});
  renderElement(<SendAgain send={send} failed="The link could not be sent" />);
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) await act(() => vi.advanceTimersByTimeAsync(1000));
  };

  expect(screen.getByRole("button", { name: "Send again in 30 s" })).toBeDisabled();
  await pass(29);
  expect(screen.getByRole("button", { name: "Send again in 1 s" })).toBeDisabled();
  await pass(1);
  await act(async () => screen.getByRole("button", { name: "Send again" }).click());
  await act(() => vi.advanceTimersByTimeAsync(0));
  expect(send).toHaveBeenCalledOnce();
  expect(screen.getByRole("button", { name: "Send again in 30 s" })).toBeDisabled();
});
