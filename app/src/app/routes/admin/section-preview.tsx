import { lazyPart } from "@/components/lazy-part";
import { Skeleton } from "@/components/ui/skeleton";
import type { DraftContent } from "@/features/admin-marketing/page-content";
import { ForNonprofits } from "@/features/marketing/for-nonprofits";
import { Hero } from "@/features/marketing/hero";
import type { Section } from "@/features/marketing/queries";

// Not what is looked at first.
const waiting = <Skeleton className="h-96" />;
const Features = lazyPart(() => import("@/features/marketing/features").then(({ Features }) => Features), waiting);
const PricingSection = lazyPart(
  () => import("@/features/billing/pricing-section").then(({ PricingSection }) => PricingSection),
  waiting,
);
const Footer = lazyPart(() => import("@/features/marketing/footer").then(({ Footer }) => Footer), waiting);

interface SectionPreviewProps {
  section: Section;
  content: DraftContent;
}

/** A section of the public page as a visitor sees it, with words that are not saved yet. */
export function SectionPreview({ section, content: draft }: SectionPreviewProps) {
  const content = { section, ...draft };
  switch (section) {
    case "hero":
      return <Hero content={content} startPath="/register" heading="h2" />;
    case "features":
      return <Features content={content} />;
    case "nonprofits":
      return <ForNonprofits content={content} />;
    case "pricing":
      return <PricingSection content={content} person={null} currentPlanName={null} />;
    case "footer":
      return <Footer content={content} bare={false} />;
    default:
      return section satisfies never;
  }
}
