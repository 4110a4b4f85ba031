import { lazyPart } from "@/components/lazy-part";
import { PageHeading } from "@/components/page-heading";
import { Skeleton } from "@/components/ui/skeleton";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";
import { LogoSettings } from "@/features/admin-settings/logo-settings";
import { SettingList } from "@/features/admin-settings/setting-list";
import { useOpened } from "@/hooks/use-opened";
import { useTab } from "@/hooks/use-tab";

const SettingsForm = lazyPart(
  () => import("./settings-form").then(({ SettingsForm }) => SettingsForm),
  <Skeleton className="h-96" />,
);

// Every tab stays mounted, so that typed text survives a change of tabs.
const kept = "data-[state=inactive]:hidden";

export function Component() {
  const [tab, setTab] = useTab(["general", "logo", "subscription-prompt", "operator"]);
  const opened = useOpened(tab);
  return (
    <>
      <PageHeading
        title="App Settings"
        subtitle="What is set, how the site looks, when it asks people to upgrade, and who runs it"
      />
      <Tabs value={tab} onValueChange={setTab}>
        <TabsList look="line" aria-label="Settings" className="mb-6">
          <TabsTrigger value="general">General</TabsTrigger>
          <TabsTrigger value="logo">Logo</TabsTrigger>
          <TabsTrigger value="subscription-prompt">Subscription Prompt</TabsTrigger>
          <TabsTrigger value="operator">Operator</TabsTrigger>
        </TabsList>
        <TabsContent value="general">
          <SettingList />
        </TabsContent>
        <TabsContent value="logo">
          <LogoSettings />
        </TabsContent>
        <TabsContent value="subscription-prompt" forceMount className={kept}>
          {opened.has("subscription-prompt") && <SettingsForm of="subscription-prompt" />}
        </TabsContent>
        <TabsContent value="operator" forceMount className={kept}>
          {opened.has("operator") && <SettingsForm of="operator" />}
        </TabsContent>
      </Tabs>
    </>
  );
}
