package search

import (
	"slices"
	"testing"
)

func TestMatchTexts(t *testing.T) {
	texts := []string{"Use WAL mode\nnever rollback", "nothing", "the wal grows; WAL again"}
	got, err := MatchTexts(Query{Pattern: "wal"}, texts)
	if err != nil || len(got[0]) != 1 || got[0][0].No != 1 || len(got[1]) != 0 || len(got[2]) != 1 {
		t.Fatal(got, err)
	}
	got, err = MatchTexts(Query{Pattern: `^never\s`, Regex: true, CaseSensitive: true}, texts)
	if err != nil || len(got[0]) != 1 || got[0][0].No != 2 || string(got[0][0].Text) != "never rollback" || len(got[2]) != 0 {
		t.Fatal(got, err)
	}
	if _, err := MatchTexts(Query{Pattern: "(", Regex: true}, texts); err == nil {
		t.Error("a bad expression is taken")
	}
}

// TestRankTexts: the text with the most words of a question comes first. Words match by stem, as
// parts of identifiers, or as synonyms. A text without any of the words is not ranked.
func TestRankTexts(t *testing.T) {
	texts := []string{
		"retries were removed from the uploader: they doubled the load",
		"configuration lives in cfgDir, read once",
		"lunch is at noon",
	}
	for question, best := range map[string]int{"why did we remove the retry in uploading?": 0, "where is the directory of the config": 1} {
		got := RankTexts(question, texts)
		if slices.Index(got, slices.Max(got)) != best || got[best] <= 0.3 || got[best] > 1 || got[2] != 0 {
			t.Errorf("%s: %v", question, got)
		}
	}
	if got := RankTexts("the of", nil); len(got) != 0 {
		t.Error(got)
	}
}
