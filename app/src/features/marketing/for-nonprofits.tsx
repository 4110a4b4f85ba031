import { Link } from "react-router";
import { Button } from "@/components/ui/button";
import { Unbroken } from "@/components/unbroken";
import { safeUrl } from "@/lib/safe-url";
import type { Content } from "./queries";

const benefits = [
  "Keep everyone pointed at the mission, from the board to the newest volunteer",
  "Spend your time on the work instead of on spreadsheets about it",
  "Show donors and grant makers what their support achieves",
  "Hand a plan on when people change, with nothing lost",
];

export function ForNonprofits({ content }: { content: Content | undefined }) {
  const image = safeUrl(content?.imageurl);
  return (
    <section id="for-nonprofits" aria-labelledby="nonprofits-title" className="border-t">
      <div className="mx-auto grid max-w-6xl items-center gap-12 px-4 py-20 sm:px-6 sm:py-24 lg:grid-cols-2 lg:gap-20">
        <div className="min-w-0 [overflow-wrap:anywhere]">
          <h2 id="nonprofits-title" className="text-title">
            <Unbroken>{content?.title || "Built for Non-Profit Organizations"}</Unbroken>
          </h2>
          {content?.subtitle && <p className="mt-4 text-lg">{content.subtitle}</p>}
          <p className="mt-5 max-w-lg text-pretty text-lg text-muted-foreground">
            {content?.description ||
              "You plan with little time, many hands and a cause that matters. Basalt keeps the plan simple, so that the people can be ambitious."}
          </p>
          <Button asChild size="large" className="mt-9 max-w-full">
            <Link to="/register">
              <span className="truncate">{content?.primarybuttontext || "Start Your Strategic Plan"}</span>
            </Link>
          </Button>
        </div>
        <div>
          {image && (
            <img src={image} alt="" loading="lazy" className="mb-10 max-h-80 w-full rounded-xl object-contain" />
          )}
          <ul className="grid content-center">
            {benefits.map((benefit) => (
              <li key={benefit} className="flex gap-4 border-b py-5 first:pt-0 last:border-b-0 last:pb-0">
                <Hexagon />
                <span className="text-lg leading-snug">{benefit}</span>
              </li>
            ))}
          </ul>
        </div>
      </div>
    </section>
  );
}

function Hexagon() {
  return (
    <svg viewBox="0 0 24 24" className="mt-0.5 size-6 shrink-0" aria-hidden focusable="false">
      <path className="fill-primary" d="M7 2.5h10L22.5 12 17 21.5H7L1.5 12z" />
      <path
        className="fill-none stroke-primary-foreground"
        strokeWidth="2.25"
        strokeLinecap="round"
        strokeLinejoin="round"
        d="m8 12.3 2.8 2.7L16.2 9.4"
      />
    </svg>
  );
}
