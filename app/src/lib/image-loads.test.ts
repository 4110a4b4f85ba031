import { afterEach, expect, test, vi } from "vitest";
import { imageLoads } from "./image-loads";

afterEach(() => void vi.useRealTimers());

/** Pictures that answer as told. */
function images(answer: (image: { onload: () => void; onerror: () => void }) => void) {
  vi.stubGlobal(
    "Image",
    class {
      onload = () => {};
      onerror = () => {};
      set src(url: string) {
        if (url) answer(this);
      }
    },
  );
}

test("picture counts only if the browser shows it", async () => {
  images((image) => image.onload());
  expect(await imageLoads("https://river.org/a.png")).toBe(true);
  images((image) => image.onerror());
  expect(await imageLoads("https://river.org/gone.png")).toBe(false);
});

test("address that does not answer is given ten seconds", async () => {
  vi.useFakeTimers();
  images(() => {});
  const loads = imageLoads("https://river.org/slow.png");
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await loads).toBe(false);
});
