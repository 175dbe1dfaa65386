package rollout

import (
	"fmt"

	"github.com/workloadkit/workloadkit/reason"
)

// limited notes what keeps a step from being larger.
type limited struct{ limits reason.List }

func (l *limited) limitf(code reason.Code, path, remedy, format string, args ...any) {
	l.limits = append(l.limits, reason.Reason{Code: code, Path: path, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
}
