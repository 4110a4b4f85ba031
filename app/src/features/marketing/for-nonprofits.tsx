import { CheckIcon } from "lucide-react";
import { Link } from "react-router";
import { Button } from "@/components/ui/button";

const benefits = [
  "Keep everyone pointed at the mission, from the board to the newest volunteer",
  "Spend your time on the work instead of on spreadsheets about it",
  "Show donors and grant makers what their support achieves",
  "Hand a plan on when people change, with nothing lost",
];

export function ForNonprofits() {
  return (
    <section id="for-nonprofits" aria-labelledby="nonprofits-title" className="border-t">
      <div className="mx-auto grid max-w-6xl gap-12 px-4 py-20 sm:px-6 sm:py-28 lg:grid-cols-2 lg:gap-20">
        <div>
          <h2 id="nonprofits-title" className="text-title">
            Built for Nonprofit Organizations
          </h2>
          <p className="mt-5 max-w-lg text-pretty text-lg text-muted-foreground">
            You plan with little time, many hands and a cause that matters. Basalt keeps the plan simple, so that the
            people can be ambitious.
          </p>
          <Button asChild size="large" className="mt-9">
            <Link to="/register">Start Your Strategic Plan</Link>
          </Button>
        </div>
        <ul className="grid content-center gap-6">
          {benefits.map((benefit) => (
            <li key={benefit} className="flex gap-4">
              <span className="mt-0.5 grid size-6 shrink-0 place-items-center rounded-full bg-primary text-primary-foreground">
                <CheckIcon className="size-3.5" strokeWidth={3} aria-hidden />
              </span>
              <span className="text-lg leading-snug">{benefit}</span>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}
