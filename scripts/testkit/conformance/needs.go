package conformance

// ability reports whether a subject or its readers have a feature that a case needs.
type ability func(s Subject, r Reader) bool

func of[T any](s Subject, r Reader) bool {
	_, whole := s.(T)
	_, part := r.(T)
	return whole || part
}

func hidden(s Subject, _ Reader) bool {
	w, ok := s.(Stealthy)
	return ok && w.Hidden()
}

// needs lists the abilities that each case needs, by name.
var needs = map[string][]ability{
	"compaction":                         {of[Eventful]},
	"compaction whose start was missed":  {of[Eventful]},
	"clear":                              {of[Eventful]},
	"resume":                             {of[Eventful]},
	"events were lost":                   {of[Eventful]},
	"an ordinary prompt changes nothing": {of[Eventful]},
	"sub-agent":                          {of[Forker]},
	"unknown reader":                     {of[Unknowing]},
	"expiry by time":                     {of[Clocked]},
	"same size and time, other content":  {hidden},
	"change underneath":                  {hidden},
	"symlink swap":                       {of[Linker]},
	"pending never committed":            {of[Committer]},
	"pending, committed":                 {of[Committer]},
	"other text delivered":               {of[Committer]},
	"no unchanged after a change notice that may not have arrived": {of[Committer]},
	"rewind":                  {of[Committer], of[Rewinder]},
	"rewind to before a diff": {of[Committer], of[Rewinder]},
	"the result that a diff rests on was cleared":              {of[Committer], of[Rewinder]},
	"partial reads after the model got another text than ours": {of[Committer]},
	"unreadable transcript":                                    {of[Rewinder]},
	"own edit of a file that was read":                         {of[Editor]},
	"own edit after reading a part":                            {of[Editor]},
	"own edit of a file never read":                            {of[Editor]},
	"own edit, then reverted by somebody else":                 {of[Editor]},
}

func plays(s Subject, r Reader, abilities []ability) bool {
	for _, able := range abilities {
		if !able(s, r) {
			return false
		}
	}
	return true
}
