-- A state of two nights as kernelfuzz 0.1.0 wrote it with tables of version 2; most rows of
-- coverage and accuracy are left out, and one gap of the coverage is added.
BEGIN TRANSACTION;
CREATE TABLE accuracy (
 night_id INTEGER NOT NULL,
 target VARCHAR NOT NULL,
 dtype VARCHAR NOT NULL,
 bin INTEGER NOT NULL,
 worst_case BOOLEAN NOT NULL,
 n INTEGER NOT NULL,
 ratio DOUBLE NOT NULL,
 climb DOUBLE NOT NULL,
 "where" VARCHAR NOT NULL,
 runs INTEGER NOT NULL,
 PRIMARY KEY (night_id, target, dtype, bin, worst_case),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "accuracy" VALUES(2,'c-generic@native:gcc-O0','f16',20,1,32,5.77566279479110045169e-02,1.0,'255x32 one_inf',6);
INSERT INTO "accuracy" VALUES(2,'c-generic@native:gcc-O0','f16',26,1,97,1.05083014234967544314e-02,1.57277507746431255419e+00,'2x1x2x97 negative_zero_rows',1);
CREATE TABLE bucket (
 id INTEGER NOT NULL,
 signature VARCHAR NOT NULL,
 kernel VARCHAR NOT NULL,
 op VARCHAR NOT NULL,
 verdict VARCHAR NOT NULL,
 law VARCHAR NOT NULL,
 target VARCHAR NOT NULL,
 case_file VARCHAR NOT NULL,
 digest VARCHAR NOT NULL,
 size INTEGER NOT NULL,
 "where" VARCHAR NOT NULL,
 text VARCHAR NOT NULL,
 explanation VARCHAR NOT NULL,
 triaged VARCHAR NOT NULL,
 need VARCHAR DEFAULT '' NOT NULL,
 core VARCHAR DEFAULT '' NOT NULL,
 found_by VARCHAR NOT NULL,
 first_night INTEGER NOT NULL,
 last_night INTEGER NOT NULL,
 passed_night INTEGER,
 count INTEGER NOT NULL,
 PRIMARY KEY (id),
 UNIQUE (signature),
 FOREIGN KEY(first_night) REFERENCES night (id),
 FOREIGN KEY(last_night) REFERENCES night (id),
 FOREIGN KEY(passed_night) REFERENCES night (id)
);
INSERT INTO "bucket" VALUES(1,'loses-eps-values','loses-eps','rms_norm','FAIL_NUMERIC','','c-loses-eps@native:gcc-O0','loses-eps-values-361a0890902b.json','361a0890902b5a3c6bc9c216e91c1c9bd9458c4e8552b71125778fcd13d2b4c4',2,'1x2x1 constant','FAIL_NUMERIC  loses-eps','','','','','kernelfuzz run --seed 104232113 --op rms_norm --pack pack',1,2,NULL,1342);
CREATE TABLE coverage (
 night_id INTEGER NOT NULL,
 op VARCHAR NOT NULL,
 kind VARCHAR NOT NULL,
 value VARCHAR NOT NULL,
 wanted BOOLEAN NOT NULL,
 count INTEGER NOT NULL,
 PRIMARY KEY (night_id, op, kind, value),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "coverage" VALUES(2,'rms_norm','alias','none',1,649);
INSERT INTO "coverage" VALUES(2,'rms_norm','alias','y in x',1,176);
INSERT INTO "coverage" VALUES(2,'rms_norm','recipe','nobody has drawn it',1,0);
CREATE TABLE law (
 night_id INTEGER NOT NULL,
 name VARCHAR NOT NULL,
 compared INTEGER NOT NULL,
 PRIMARY KEY (night_id, name),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "law" VALUES(1,'rerun',20);
INSERT INTO "law" VALUES(1,'scaling',0);
INSERT INTO "law" VALUES(2,'rerun',16);
INSERT INTO "law" VALUES(2,'scaling',20);
CREATE TABLE night (
 id INTEGER NOT NULL,
 seed INTEGER NOT NULL,
 started DATETIME NOT NULL,
 limit_s DOUBLE NOT NULL,
 used_s DOUBLE NOT NULL,
 triage_s DOUBLE NOT NULL,
 ended VARCHAR NOT NULL,
 version VARCHAR NOT NULL,
 command VARCHAR NOT NULL,
 environment JSON NOT NULL,
 PRIMARY KEY (id)
);
INSERT INTO "night" VALUES(1,3,'2026-11-22 07:21:46.000000',6.0,6.64268456799982232041e+00,0.0,'limit','0.1.0','kernelfuzz nightly --max-time 6s --pack pack --target ''*native*''','{}');
INSERT INTO "night" VALUES(2,4,'2026-11-22 07:21:56.000000',5.0,5.49518370899977526278e+00,0.25,'limit','0.1.0','kernelfuzz nightly --max-time 5s --pack pack --target ''*native*''','{}');
CREATE TABLE pace (
 night_id INTEGER NOT NULL,
 minute INTEGER NOT NULL,
 judged INTEGER NOT NULL,
 cases INTEGER NOT NULL,
 PRIMARY KEY (night_id, minute),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "pace" VALUES(1,0,1916,479);
INSERT INTO "pace" VALUES(2,0,3848,962);
CREATE TABLE session (
 id INTEGER NOT NULL,
 night_id INTEGER NOT NULL,
 started DATETIME NOT NULL,
 used_s DOUBLE NOT NULL,
 ended VARCHAR NOT NULL,
 PRIMARY KEY (id),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "session" VALUES(1,1,'2026-11-22 07:21:46.000000',6.64268456799982232041e+00,'limit');
INSERT INTO "session" VALUES(2,2,'2026-11-22 07:21:56.000000',5.49518370899977526278e+00,'limit');
CREATE TABLE sighting (
 bucket_id INTEGER NOT NULL,
 night_id INTEGER NOT NULL,
 target VARCHAR NOT NULL,
 count INTEGER NOT NULL,
 PRIMARY KEY (bucket_id, night_id, target),
 FOREIGN KEY(bucket_id) REFERENCES bucket (id),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "sighting" VALUES(1,1,'c-loses-eps@native:gcc-O0',228);
INSERT INTO "sighting" VALUES(1,1,'c-loses-eps@native:gcc-O2',228);
INSERT INTO "sighting" VALUES(1,2,'c-loses-eps@native:gcc-O0',443);
INSERT INTO "sighting" VALUES(1,2,'c-loses-eps@native:gcc-O2',443);
CREATE TABLE slice (
 id INTEGER NOT NULL,
 night_id INTEGER NOT NULL,
 number INTEGER NOT NULL,
 op VARCHAR NOT NULL,
 seed INTEGER NOT NULL,
 seconds DOUBLE NOT NULL,
 cases INTEGER NOT NULL,
 judged INTEGER NOT NULL,
 done BOOLEAN NOT NULL,
 PRIMARY KEY (id),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "slice" VALUES(1,1,0,'',2960255636,0.0,0,0,1);
INSERT INTO "slice" VALUES(2,1,1,'rms_norm',2859798250,6.41547080700002,479,1916,1);
INSERT INTO "slice" VALUES(3,2,0,'',2855270768,60.5,1,4,1);
INSERT INTO "slice" VALUES(4,2,1,'rms_norm',104232113,5.21824662199969679932e+00,961,3844,1);
CREATE TABLE target (
 night_id INTEGER NOT NULL,
 name VARCHAR NOT NULL,
 kernel VARCHAR NOT NULL,
 op VARCHAR NOT NULL,
 runs BOOLEAN NOT NULL,
 reason VARCHAR NOT NULL,
 attested JSON NOT NULL,
 judged INTEGER NOT NULL,
 findings INTEGER NOT NULL,
 gave_up INTEGER NOT NULL,
 not_run INTEGER NOT NULL,
 PRIMARY KEY (night_id, name),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "target" VALUES(1,'c-generic@native:gcc-O0','generic','rms_norm',1,'','{}',479,0,0,0);
INSERT INTO "target" VALUES(1,'c-generic@native:gcc-O2','generic','rms_norm',1,'','{}',479,0,0,0);
INSERT INTO "target" VALUES(1,'c-loses-eps@native:gcc-O0','loses-eps','rms_norm',1,'','{}',479,228,0,0);
INSERT INTO "target" VALUES(1,'c-loses-eps@native:gcc-O2','loses-eps','rms_norm',1,'','{}',479,228,0,0);
INSERT INTO "target" VALUES(2,'c-generic@native:gcc-O0','generic','rms_norm',1,'','{}',962,0,0,0);
INSERT INTO "target" VALUES(2,'c-generic@native:gcc-O2','generic','rms_norm',1,'','{}',962,0,0,0);
INSERT INTO "target" VALUES(2,'c-loses-eps@native:gcc-O0','loses-eps','rms_norm',1,'','{}',962,443,0,0);
INSERT INTO "target" VALUES(2,'c-loses-eps@native:gcc-O2','loses-eps','rms_norm',1,'','{}',962,443,0,0);
CREATE TABLE twin (
 night_id INTEGER NOT NULL,
 target VARCHAR NOT NULL,
 law VARCHAR NOT NULL,
 compared INTEGER NOT NULL,
 PRIMARY KEY (night_id, target, law),
 FOREIGN KEY(night_id) REFERENCES night (id)
);
INSERT INTO "twin" VALUES(1,'c-generic@native:gcc-O0','rerun',5);
INSERT INTO "twin" VALUES(1,'c-generic@native:gcc-O2','rerun',5);
INSERT INTO "twin" VALUES(1,'c-loses-eps@native:gcc-O0','rerun',5);
INSERT INTO "twin" VALUES(1,'c-loses-eps@native:gcc-O2','rerun',5);
INSERT INTO "twin" VALUES(2,'c-generic@native:gcc-O0','rerun',5);
INSERT INTO "twin" VALUES(2,'c-generic@native:gcc-O2','rerun',5);
INSERT INTO "twin" VALUES(2,'c-loses-eps@native:gcc-O0','rerun',5);
INSERT INTO "twin" VALUES(2,'c-loses-eps@native:gcc-O2','rerun',5);
CREATE INDEX ix_session_night_id ON session (night_id);
CREATE INDEX ix_slice_night_id ON slice (night_id);
COMMIT;
PRAGMA user_version = 2;
