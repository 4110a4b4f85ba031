import { ArrowRightIcon } from "lucide-react";
import { Link } from "react-router";
import { Button } from "@/components/ui/button";
import { Unbroken } from "@/components/unbroken";
import { safeUrl } from "@/lib/safe-url";
import { heroPicture } from "./hero-picture";
import type { Content } from "./queries";
import { Screenshot } from "./screenshot";

interface HeroProps {
  content: Content | undefined;
  startPath: string;
  /** `h2` where this is shown on another page. */
  heading?: "h1" | "h2";
}

export function Hero({ content, startPath, heading: Heading = "h1" }: HeroProps) {
  const image = safeUrl(content?.imageurl);
  return (
    <section aria-labelledby="hero-title" className="overflow-hidden">
      <div className="mx-auto grid max-w-6xl items-center gap-x-12 gap-y-14 px-4 pt-12 pb-20 sm:px-6 sm:pt-18 sm:pb-24 lg:grid-cols-[1.05fr_1fr]">
        <div className="min-w-0 [overflow-wrap:anywhere]">
          <p className="font-medium text-primary text-sm">{content?.subtitle || "Made for non-profit organizations"}</p>
          <Heading id="hero-title" tabIndex={Heading === "h1" ? -1 : undefined} className="mt-4 text-hero">
            <Unbroken>{content?.title || "Strategic Planning Made Simple"}</Unbroken>
          </Heading>
          <p className="mt-6 max-w-xl text-pretty text-lg text-muted-foreground sm:text-xl">
            {content?.description ||
              "Set goals, plan together, and show your board and funders how far you have come. One calm place for the plans your mission depends on."}
          </p>
          <div className="mt-9 flex flex-col gap-3 sm:flex-row sm:flex-wrap">
            <Button asChild size="large" className="max-w-full">
              <Link to={startPath}>
                <span className="truncate">{content?.primarybuttontext || "Start Planning Free"}</span>
                <ArrowRightIcon aria-hidden className="rtl:-scale-x-100" />
              </Link>
            </Button>
            <Button asChild variant="secondary" size="large" className="max-w-full">
              <a href="#features">
                <span className="truncate">{content?.secondarybuttontext || "Learn More"}</span>
              </a>
            </Button>
          </div>
        </div>
        {image ? (
          <img src={image} alt="" className="max-h-[32rem] w-full rounded-xl object-contain" />
        ) : (
          <Screenshot {...heroPicture} />
        )}
      </div>
    </section>
  );
}
