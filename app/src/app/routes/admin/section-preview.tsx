import { lazy, Suspense } from "react";
import { Skeleton } from "@/components/ui/skeleton";
import type { DraftContent } from "@/features/admin-marketing/page-content";
import { Features } from "@/features/marketing/features";
import { ForNonprofits } from "@/features/marketing/for-nonprofits";
import { Hero } from "@/features/marketing/hero";
import type { Section } from "@/features/marketing/queries";

// Not what is looked at first.
const PricingSection = lazy(() =>
  import("@/features/billing/pricing-section").then(({ PricingSection }) => ({ default: PricingSection })),
);
const Footer = lazy(() => import("@/features/marketing/footer").then(({ Footer }) => ({ default: Footer })));

interface SectionPreviewProps {
  section: Section;
  content: DraftContent;
}

/** A section of the public page as a visitor sees it, with words that are not saved yet. */
export function SectionPreview(props: SectionPreviewProps) {
  return (
    <Suspense fallback={<Skeleton className="h-96" />}>
      <PublicSection {...props} />
    </Suspense>
  );
}

function PublicSection({ section, content: draft }: SectionPreviewProps) {
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
