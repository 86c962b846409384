package oom

import "strings"

// notAllocated is what glibc says of ENOMEM in other languages (the libc.po files of glibc 2.36 and 2.43): of shells, of C
// programs, and of Python where a program has set its locale. In English the words are a rule's own.
var notAllocated = []string{
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
var refusedAbroad = rx(`(?:[:：] ?|\[Errno 12\] )(?:` + strings.Join(notAllocated, "|") + `)(?:[.。]|: '.*')?\s*$`)

// lowered has the letters of ASCII small, as the words that are searched for have them.
func lowered(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lower(b[i])
	}
	return string(b)
}
