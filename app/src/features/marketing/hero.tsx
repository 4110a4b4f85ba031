import { ArrowRightIcon } from "lucide-react";
import { Link } from "react-router";
import { ColumnsArt } from "@/components/columns-art";
import { Button } from "@/components/ui/button";

export function Hero({ startPath }: { startPath: string }) {
  return (
    <section className="mx-auto grid max-w-6xl items-center gap-12 px-4 pt-12 pb-20 sm:px-6 sm:pt-20 sm:pb-28 lg:grid-cols-[1.15fr_1fr]">
      <div>
        <p className="inline-flex items-center gap-2 rounded-full bg-primary-soft px-3.5 py-1 font-medium text-primary-soft-foreground text-sm">
          Made for non-profit organizations
        </p>
        <h1 tabIndex={-1} className="mt-6 text-hero">
          Strategic Planning Made Simple
        </h1>
        <p className="mt-6 max-w-xl text-pretty text-lg text-muted-foreground sm:text-xl">
          Set goals, plan together and see how far you have come. One calm place for the plans your mission depends on.
        </p>
        <div className="mt-9 flex flex-col gap-3 sm:flex-row">
          <Button asChild size="large">
            <Link to={startPath}>
              Start Planning Free
              <ArrowRightIcon aria-hidden />
            </Link>
          </Button>
          <Button asChild variant="secondary" size="large">
            {/* biome-ignore lint/a11y/noAmbiguousAnchorText: the specification's words; a later issue makes them editable */}
            <a href="#features">Learn More</a>
          </Button>
        </div>
      </div>
      <ColumnsArt className="mx-auto h-60 max-w-full sm:h-80 lg:h-96" />
    </section>
  );
}
