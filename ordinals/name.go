package ordinals

import (
	"strconv"
	"strings"
)

// Name returns the name of an owner's Pod: "web" and 3 give "web-3".
func Name(owner string, ordinal int) string { return owner + "-" + strconv.Itoa(ordinal) }

// ParseName splits a Pod's name into owner and ordinal: "web-3" gives "web" and 3. ParseName accepts exactly the names
// that Name makes from an ordinal from 0 to Max and an owner's name that is not empty and does not end in "-". So
// different names never give the same owner and ordinal: leading zeros and signs are refused. ParseName does not
// allocate.
func ParseName(podName string) (owner string, ordinal int, ok bool) {
	at := strings.LastIndexByte(podName, '-')
	if at <= 0 || podName[at-1] == '-' {
		return "", 0, false
	}
	number := podName[at+1:]
	if len(number) > 1 && number[0] == '0' {
		return "", 0, false
	}
	if ordinal, ok = digits(number); !ok {
		return "", 0, false
	}
	return podName[:at], ordinal, true
}

// digits parses an unsigned decimal number up to Max.
func digits(s string) (int, bool) {
	if s == "" {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n = n*10 + int(s[i]-'0'); n > Max {
			return 0, false
		}
	}
	return n, true
}
