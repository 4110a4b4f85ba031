import { render, screen } from "@testing-library/react";
import { useRef } from "react";
import { expect, test } from "vitest";
import { stubIntersections } from "@/test/intersections";
import { useNear } from "./use-near";
import { useScrolledPast } from "./use-scrolled-past";

function Place() {
  const { place, near } = useNear();
  return <div ref={place}>{near ? "near" : "far"}</div>;
}

function Header() {
  const header = useRef<HTMLDivElement>(null);
  const past = useScrolledPast(header, 64);
  return <div ref={header}>{past ? "past" : "in view"}</div>;
}

test("place that comes near in one report with its first state is near", () => {
  const { report } = stubIntersections();
  render(<Place />);
  report({ isIntersecting: false }, { isIntersecting: true });
  expect(screen.getByText("near")).toBeVisible();
});

test("place that only passed by stays near", () => {
  const { report } = stubIntersections();
  render(<Place />);
  report({ isIntersecting: false }, { isIntersecting: true }, { isIntersecting: false });
  report({ isIntersecting: false });
  expect(screen.getByText("near")).toBeVisible();
});

test("last report decides whether an element was scrolled past", () => {
  const { report } = stubIntersections();
  render(<Header />);
  report({ isIntersecting: true, top: 100 }, { isIntersecting: false, top: -300 });
  expect(screen.getByText("past")).toBeVisible();
  report({ isIntersecting: false, top: -300 }, { isIntersecting: true, top: 100 });
  expect(screen.getByText("in view")).toBeVisible();
});
