/** A title whose words are not broken at their hyphens: "Non-Profit" stays together on one line. */
export function Unbroken({ children }: { children: string }) {
  return children.split(/(\S+-\S+)/).map((part, index) =>
    // A word that is long for a phone's line may break.
    index % 2 === 1 && part.length <= 20 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: a word is its place
      <span key={index} className="whitespace-nowrap">
        {part}
      </span>
    ) : (
      part
    ),
  );
}
