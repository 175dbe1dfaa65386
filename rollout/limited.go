package rollout

import (
	"fmt"

	"github.com/workloadkit/workloadkit/reason"
)

const notSelectedRemedy = "give them the labels that the selector asks for, or have somebody else control or delete them"

// limited notes the reasons why a step is not larger.
type limited struct{ limits reason.List }

func (l *limited) limitf(code reason.Code, path, remedy, format string, args ...any) {
	l.limits = append(l.limits, reason.Reason{Code: code, Path: path, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
}
