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
	"compaction": {of[Eventful]},
	"compaction of which only its end was heard": {of[Eventful]},
	"clear":                                   {of[Eventful]},
	"resume":                                  {of[Eventful]},
	"events were lost":                        {of[Eventful]},
	"an ordinary prompt changes nothing":      {of[Eventful]},
	"sub-agent":                               {of[Forker]},
	"unknown reader":                          {of[Unknowing]},
	"expiry by time":                          {of[Clocked]},
	"same size and time, other content":       {hidden},
	"change underneath":                       {hidden},
	"symlink swap":                            {of[Linker]},
	"pending never committed":                 {of[Committer]},
	"pending, committed":                      {of[Committer]},
	"other text delivered":                    {of[Committer]},
	"uncommitted word of a change is a doubt": {of[Committer]},
	"rewind":                                  {of[Committer], of[Rewinder]},
	"rewind behind a diff":                    {of[Committer], of[Rewinder]},
	"the result that a diff rests on was cleared": {of[Committer], of[Rewinder]},
	"parts after a text that was not ours":        {of[Committer]},
	"unreadable transcript":                       {of[Rewinder]},
	"own edit of a file that was read":            {of[Editor]},
	"own edit after reading a part":               {of[Editor]},
	"own edit of a file never read":               {of[Editor]},
	"own edit, then back by another hand":         {of[Editor]},
}

func plays(s Subject, r Reader, abilities []ability) bool {
	for _, able := range abilities {
		if !able(s, r) {
			return false
		}
	}
	return true
}
