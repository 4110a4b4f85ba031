import { lazyPart } from "@/components/lazy-part";
import { PageHeading } from "@/components/page-heading";
import { Skeleton } from "@/components/ui/skeleton";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";
import { LogoSettings } from "@/features/admin-settings/logo-settings";
import { SettingList } from "@/features/admin-settings/setting-list";
import { useOpened } from "@/hooks/use-opened";
import { useTab } from "@/hooks/use-tab";

// The only form of this page.
const PromptSettings = lazyPart(
  () => import("@/features/admin-prompt/prompt-settings").then(({ PromptSettings }) => PromptSettings),
  <Skeleton className="h-96" />,
);

export function Component() {
  const [tab, setTab] = useTab(["general", "logo", "subscription-prompt"]);
  const opened = useOpened(tab);
  return (
    <>
      <PageHeading
        title="App Settings"
        subtitle="What is set, how the site looks, and when it asks people to upgrade"
      />
      <Tabs value={tab} onValueChange={setTab}>
        <TabsList look="line" aria-label="Settings" className="mb-6">
          <TabsTrigger value="general">General</TabsTrigger>
          <TabsTrigger value="logo">Logo</TabsTrigger>
          <TabsTrigger value="subscription-prompt">Subscription Prompt</TabsTrigger>
        </TabsList>
        <TabsContent value="general">
          <SettingList />
        </TabsContent>
        <TabsContent value="logo">
          <LogoSettings />
        </TabsContent>
        {/* Stays while another tab is looked at: what was typed is not lost. */}
        <TabsContent value="subscription-prompt" forceMount className="data-[state=inactive]:hidden">
          {opened.has("subscription-prompt") && <PromptSettings />}
        </TabsContent>
      </Tabs>
    </>
  );
}
