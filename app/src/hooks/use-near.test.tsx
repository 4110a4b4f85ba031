import { render, screen } from "@testing-library/react";
import { useRef } from "react";
import { expect, test } from "vitest";
import { reportIntersections } from "@/test/intersections";
import { useNear } from "./use-near";
import { useScrolledPast } from "./use-scrolled-past";

function Place() {
  const { place, near } = useNear();
  return <output ref={place}>{near ? "near" : "far"}</output>;
}

function Header() {
  const header = useRef<HTMLOutputElement>(null);
  const past = useScrolledPast(header, 64);
  return <output ref={header}>{past ? "past" : "in view"}</output>;
}

test("place that comes near in one report with its first state is near", () => {
  render(<Place />);
  const place = screen.getByRole("status");
  reportIntersections(place, { isIntersecting: false }, { isIntersecting: true });
  expect(place).toHaveTextContent("near");
});

test("place that only passed by stays near", () => {
  render(<Place />);
  const place = screen.getByRole("status");
  reportIntersections(place, { isIntersecting: false }, { isIntersecting: true }, { isIntersecting: false });
  reportIntersections(place, { isIntersecting: false });
  expect(place).toHaveTextContent("near");
});

test("last report decides whether an element was scrolled past", () => {
  render(<Header />);
  const header = screen.getByRole("status");
  reportIntersections(header, { isIntersecting: true, top: 100 }, { isIntersecting: false, top: -300 });
  expect(header).toHaveTextContent("past");
  reportIntersections(header, { isIntersecting: false, top: -300 }, { isIntersecting: true, top: 100 });
  expect(header).toHaveTextContent("in view");
});
