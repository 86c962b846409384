package printed

import (
	"regexp"
	"strings"
)

var (
	// notAllocated is what glibc says of ENOMEM in other languages (the libc.po files of glibc 2.36 and 2.43): of shells, of C
	// programs, and of Python where a program has set its locale. In English the words are a rule's own.
	NotAllocated = []string{
		"Nicht genügend Hauptspeicher verfügbar", // de
		"Ne peut allouer de la mémoire",          // fr
		"No se pudo asignar memoria",             // es
		"No s’ha pogut reservar memòria",         // ca
		"Impossibile allocare memoria",           // it
		"Impossível alocar memória",              // pt
		"Não foi possível alocar memória",        // pt_BR
		"Onvoldoende geheugen beschikbaar",       // nl
		"Nie można przydzielić pamięci",          // pl
		"Nelze alokovat paměť",                   // cs
		"Nem foglalható memória",                 // hu
		"Bellek ayrılamadı",                      // tr
		"Kan inte allokera minne",                // sv
		"Kan ikke tildele hukommelse",            // da
		"Kan ikke tildele minne",                 // nb
		"Muistin varaaminen ei onnistu",          // fi
		"Невозможно выделить память",             // ru
		"Не вдалося розподілити пам’ять",         // uk
		"Không thể cấp phát bộ nhớ",              // vi
		"无法分配内存",                                 // zh_CN
		"無法配置記憶體",                                // zh_TW
		"メモリを確保できません",                            // ja
		"메모리를 할당할 수 없습니다",                        // ko
	}
	// refusedAbroad is ENOMEM as perror(3), a shell or Python ends a line with it.
	RefusedAbroad = rx(`(?:[:：] ?|\[Errno 12\] )(?:` + strings.Join(NotAllocated, "|") + `)(?:[.。]|: '.*')?\s*$`)
	// killedAbroad is what strsignal(3) and bash call SIGKILL in other languages (libc.po of glibc 2.36 and bash.po of 5.2). Bash
	// asks glibc, and where that knows no word it has its own.
	KilledAbroad = []string{
		"Abgebrochen (Killed)", "Getötet", // de
		"Tué", "Processus arrêté", // fr
		"Matado", "Terminado (killed)", // es, gl
		"Mort", "Matat", // ca
		"Ucciso",                  // it
		"Morto", "Morto (Killed)", // pt, pt_BR
		"Geëlimineerd",             // nl
		"Unicestwiony",             // pl
		"Zabit", "Zabit (SIGKILL)", // cs
		"Zabitý",                        // sk
		"Kilőve",                        // hu
		"Öldürüldü", "Süreç durduruldu", // tr
		"Dödad",                // sv
		"Slået ihjel", "Dræbt", // da
		"Drept",           // nb
		"Tapettu",         // fi
		"Omorât",          // ro
		"Maraithe",        // ga
		"Murdu", "Buĉita", // eo
		"Dibunuh", "Terbunuh", // id
		"Ubijen",          // hr
		"Uničen", "Pobit", // sl
		"Nutraukta (killed)", // lt
		"Убит", "Убито",      // ru
		"Безусловно прекъснат", // bg, and as ru
		"Убијен",          // sr
		"Вбитий", "Вбито", // uk
		"Забіты",                      // be
		"Σκοτώθηκε",                   // el
		"Bị giết", "Bị buộc kết thúc", // vi
		"已杀死",          // zh_CN
		"強制結束", "强制终止", // zh_TW, and in the letters of zh_CN
		"強制終了", // ja
		"죽었음",  // ko
	}
	// endedAbroad is how bash says it of a command of a script ("run.sh: línea 3: 811 Matado   python …"), of a job ("[1]+  Matado"),
	// and of what was typed, where the word stands alone: a short one then says too little. In some languages the line is not in
	// English and the word is (jobs.c, notify_of_job_status, and error.c).
	EndedAbroad = func() *pattern {
		quoted := func(words []string) string {
			var q []string
			for _, w := range words {
				q = append(q, regexp.QuoteMeta(w))
			}
			return "(?:" + strings.Join(q, "|") + ")"
		}
		var alone []string
		for _, w := range KilledAbroad {
			if standsAlone(w) {
				alone = append(alone, w)
			}
		}
		return rx(`\d+(?:\. ?|ª| )?\pL{0,10} ?[:：] *\d+ +(?:Killed|` + quoted(KilledAbroad) + `)(?:\s|$)|` +
			`^\s*\[\d+\][+-]? +` + quoted(KilledAbroad) + `(?:\s|$)|^\s*` + quoted(alone) + `\s*$`)
	}()
)

// standsAlone reports whether a word is long enough, or strange enough to English, to be looked for without a space beside it.
func standsAlone(word string) bool {
	return len(word) >= 6 || strings.ContainsFunc(word, func(r rune) bool { return r > 0x7e })
}

// killedWords are what a line with one of these is found by.
func KilledWords() (words []string) {
	for _, w := range KilledAbroad {
		if w = Lowered(w); !standsAlone(w) {
			w = " " + w + " " // bash fills the column with spaces
		}
		words = append(words, w)
	}
	return words
}

// lowered has the letters of ASCII small, as the words that are searched for have them.
func Lowered(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lower(b[i])
	}
	return string(b)
}
