package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// diskCollector asks the file system of the state folder at each scrape.
type diskCollector struct {
	folder     string
	free, size *prometheus.Desc
}

func newDiskCollector(folder string) *diskCollector {
	return &diskCollector{
		folder: folder,
		free: prometheus.NewDesc("pawl_state_free_bytes",
			"Bytes that pawl may still write on the disk of its state folder.", nil, nil),
		size: prometheus.NewDesc("pawl_state_size_bytes",
			"Size of the disk that the state folder is on.", nil, nil),
	}
}

// Describe sends the descriptors.
func (c *diskCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.free
	ch <- c.size
}

// Collect sends both sizes, or why they can't be had; the other metrics of the
// scrape are not touched by that.
func (c *diskCollector) Collect(ch chan<- prometheus.Metric) {
	free, size, err := diskSpace(c.folder)
	if err != nil {
		err = fmt.Errorf("free space of the state folder %s: %w", c.folder, err)
		ch <- prometheus.NewInvalidMetric(c.free, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.free, prometheus.GaugeValue, float64(free))
	ch <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(size))
}
